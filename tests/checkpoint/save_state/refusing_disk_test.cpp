// save_state() where the system itself refuses: limits, folders that go, places where nobody may
// write. tests/checkpoint/checkpoint_faults_test.cpp has every step of a save fail.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

#include "accelerate/accelerate.h"
#include "accelerate/base/error.h"
#include "tests/checkpoint/save_state/saved_count.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::kFolder;

using testing::run_ranks_shared;
using testing::TemporaryFolder;
using Path = std::filesystem::path;

std::string try_to_save(Accelerator& accelerator, const Path& folder) {
  try {
    accelerator.save_state(folder);
  } catch (const CheckpointError& error) {
    return describe(error);
  }
  return {};
}

std::vector<std::string> names(const Path& folder) {
  auto all = real_file_system().list(folder);
  std::erase(all, ".lock");
  return all;
}

// Files may not grow beyond 64 KiB: the system takes a part of a write, then refuses the rest.
RANK_MAIN(save_beyond_a_limit) {
  const Path folder = std::getenv(kFolder);
  Accelerator accelerator({.communicator = single_communicator()});
  torch::nn::Linear net(200, 200);
  auto model = accelerator.prepare(net);
  accelerator.save_state(folder);
  const auto before = net->weight.detach().clone();
  const rlimit limit{.rlim_cur = 64 << 10, .rlim_max = RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
  torch::nn::init::zeros_(net->weight);
  std::cout << try_to_save(accelerator, folder) << std::endl;
  accelerator.load_state(folder);
  return torch::equal(net->weight, before) ? 0 : 1;
}

TEST(RefusingDisk, ThatTakesAPartOfAFileLeavesTheCheckpointOfBefore) {
  const TemporaryFolder home;
  const auto ended = testing::run_processes(1, "save_beyond_a_limit",
                                            {.env = {{kFolder, home.path() / "state"}}})[0];
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "File too large", ended.out);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "model.safetensors", ended.out);
  EXPECT_EQ(names(home.path()), std::vector<std::string>{"state"});
}

// Somebody clears the folder away while the ranks write into it.
TEST(RefusingDisk, WhoseFolderVanishesIsAnErrorOnEveryRank) {
  const TemporaryFolder home;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator({.communicator = ranks});
    torch::nn::Linear net(2, 2);
    auto model = accelerator.prepare(net);
    accelerator.save_state(home.path() / "state");
    auto vandal = accelerator.register_save_state_pre_hook([&](const Path& folder) {
      if (ranks->rank() == 1) std::filesystem::remove_all(folder);
    });
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "was not saved",
                        try_to_save(accelerator, home.path() / "state"));
    vandal.remove();
    accelerator.load_state(home.path() / "state");
    EXPECT_EQ(try_to_save(accelerator, home.path() / "state"), "");
  });
}

TEST(RefusingDisk, WhereNobodyMayWriteIsASentenceWithThePlace) {
  const TemporaryFolder home;
  home.write("file", "notes");
  for (const Path& place : {Path("/proc/checkpoints/state"), home.path() / "file" / "state"}) {
    Accelerator accelerator({.communicator = single_communicator()});
    const auto said = try_to_save(accelerator, place);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, place.string(), said);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot", said);
  }
}

TEST(RefusingDisk, WhereAnotherRunSavesSaysWhoHasIt) {
  const TemporaryFolder home;
  const auto other = real_file_system().lock(home.path());
  Accelerator accelerator({.communicator = single_communicator()});
  const auto said = try_to_save(accelerator, home.path() / "state");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "in use by process " + std::to_string(getpid()),
                      said);
}

}  // namespace
}  // namespace accelerate
