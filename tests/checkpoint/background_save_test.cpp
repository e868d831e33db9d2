#include "accelerate/checkpoint/background_save.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/comm/c10d_communicator.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::FaultyFileSystem;
using testing::LogCapture;
using testing::run_ranks;

std::vector<PlannedFile> plan_of(const std::vector<at::Tensor>& tensors) {
  PlannedFile file{.name = "a.safetensors"};
  for (const auto& tensor : tensors)
    file.tensors.push_back({std::to_string(file.tensors.size()), tensor});
  return {file, {.name = "b.json", .text = "{}"}};
}

TEST(Staging, CopiesDoNotChangeWithTheirOriginals) {
  const auto base = at::arange(12, at::kFloat).view({3, 4});
  const std::vector<at::Tensor> kinds = {base,
                                         base.t(),
                                         at::empty({0, 2}),
                                         at::ones({}, at::kHalf),
                                         at::arange(3'000'000),
                                         at::complex(base, base).conj()};
  std::vector<at::Tensor> before;
  for (const auto& tensor : kinds) before.push_back(tensor.resolve_conj().clone());
  Staging staging;
  const auto copy = staging.copy(plan_of(kinds));
  for (const auto& tensor : kinds) tensor.zero_();
  ASSERT_EQ(copy.size(), 2U);
  EXPECT_EQ(copy[1].text, "{}");
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const auto& tensor = copy[0].tensors[i].tensor;
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(tensor.scalar_type(), before[i].scalar_type());
    EXPECT_TRUE(at::equal(tensor, before[i])) << i;
  }
}

TEST(Staging, KeepsItsMemoryForTheNextCopyUntilItIsReleased) {
  Staging staging;
  const auto address = [&](const at::Tensor& tensor) {
    return staging.copy(plan_of({tensor}))[0].tensors[0].tensor.const_data_ptr();
  };
  const auto* first = address(at::ones({1000}));
  EXPECT_EQ(address(at::ones({1000})), first);
  EXPECT_EQ(address(at::ones({10})), first) << "a smaller one fits";
  EXPECT_GE(staging.size_bytes(), 4000U);
  (void)address(at::ones({5000}));
  EXPECT_GE(staging.size_bytes(), 20'000U) << "a larger one makes it grow";
  staging.release();
  EXPECT_EQ(staging.size_bytes(), 0U);
}

TEST(Staging, OutlivesItsReleaseWhereItIsStillUsed) {
  Staging staging;
  const auto copy = staging.copy(plan_of({at::ones({1000})}));
  staging.release();
  EXPECT_EQ(copy[0].tensors[0].tensor.sum().item<double>(), 1000);
}

TEST(BackgroundSave, TellsAnErrorOnceToWhoWaits) {
  const auto alone = single_communicator();
  BackgroundSave saves;
  saves.wait();
  saves.start(*alone, [](Communicator&) { throw CheckpointError("no room"); });
  EXPECT_THROW(saves.wait(), CheckpointError);
  saves.wait();
  bool ran = false;
  saves.start(*alone, [&](Communicator&) { ran = true; });
  saves.wait();
  EXPECT_TRUE(ran);
}

TEST(BackgroundSave, LogsAnErrorThatNobodyWaitedFor) {
  const auto alone = single_communicator();
  const LogCapture log;
  {
    BackgroundSave saves;
    saves.start(*alone, [](Communicator&) { throw CheckpointError("no room"); });
  }
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "ERROR accelerate.checkpoint", log.lines()[0]);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "no room", log.lines()[0]);
}

// Its collectives and the training's run at the same time, in another order on each rank.
TEST(BackgroundSave, SpeaksToItsPeersBesideTheTraining) {
  run_ranks(3, [](Communicator& ranks) {
    BackgroundSave saves;
    for (int round = 0; round < 3; ++round) {
      std::int64_t in_background = 0;
      saves.start(ranks, [&](Communicator& group) {
        EXPECT_NE(&group, &ranks);
        for (int i = 0; i < 20; ++i) {
          const auto one = at::ones({1}, at::kLong);
          group.all_reduce(one, ReduceOp::sum).wait();
          in_background += one.item<std::int64_t>();
        }
      });
      for (int i = 0; i < 20; ++i) {
        const auto rank = at::full({1000}, ranks.rank());
        ranks.all_reduce(rank, ReduceOp::sum).wait();
        EXPECT_EQ(rank[7].item<std::int64_t>(), 3);
      }
      saves.wait();
      EXPECT_EQ(in_background, 60);
    }
  });
}

// What ranks abort ends the save that is under way, on those ranks that had begun one.
TEST(BackgroundSave, SpeaksInAnotherGroupOnceItsRanksWereRenewed) {
  const LogCapture log;
  run_ranks(2, [](Communicator& ranks) {
    BackgroundSave saves;
    const auto add_up = [](Communicator& group) {
      const auto one = at::ones({1}, at::kLong);
      group.all_reduce(one, ReduceOp::sum).wait();
      EXPECT_EQ(one.item<std::int64_t>(), 2);
    };
    saves.start(ranks, add_up);
    saves.wait();
    for (int round = 0; round < 2; ++round) {
      if (ranks.rank() == round) saves.start(ranks, add_up);
      if (ranks.rank() != round) ranks.abort("out of memory");
      EXPECT_THROW(ranks.barrier(), CommError);
      ranks.renew();
      saves.wait_before(ranks);
      saves.start(ranks, add_up);
      saves.wait_before(ranks);
    }
  });
  const auto failed = [](const std::string& line) {
    return line.find("was given up") != line.npos;
  };
  const auto lines = log.lines();
  EXPECT_EQ(std::ranges::count_if(lines, failed), 2);
}

// One rank's training died in the call; the others' saves must neither hang nor leave anything.
TEST(BackgroundSave, GivesUpWhenARankIsLost) {
  FaultyFileSystem files;
  files.create_directories("/runs");
  const auto body = [&](Communicator& ranks) {
    BackgroundSave saves;
    auto checkpoint = std::make_shared<PendingCheckpoint>(files, ranks, "/runs/a");
    saves.start(ranks, [&files, checkpoint, lost = ranks.rank() == 1](Communicator& group) {
      if (lost) return;
      checkpoint->complete(group, [&](const std::filesystem::path& folder) {
        return write_planned(files, folder, {{.name = "x", .text = "y"}});
      });
    });
    checkpoint.reset();
    if (ranks.rank() == 1) return saves.wait();
    EXPECT_THROW(saves.wait(), CheckpointError);
  };
  run_ranks(2, body, {.timeout = std::chrono::seconds(5)});
  EXPECT_TRUE(files.visible().empty()) << files.visible().begin()->first;
  EXPECT_TRUE(files.list("/runs").empty());
}

}  // namespace
}  // namespace accelerate
