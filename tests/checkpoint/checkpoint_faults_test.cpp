// The disk refuses at any step of a save: every rank hears why, the checkpoint of before is whole,
// and the next save works.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "accelerate/base/error.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/checkpoint/planned_files.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::FaultPlan;
using testing::FaultyFileSystem;
using testing::run_ranks;
using Path = std::filesystem::path;

const Path kFolder = "/runs/state";

void save(FileSystem& files, Communicator& ranks, std::int64_t number) {
  save_checkpoint(files, ranks, kFolder, [&](const Path& temporary) {
    const auto rank = "rank_" + std::to_string(ranks.rank());
    return write_planned(
        files, temporary,
        {{.name = rank, .text = std::to_string(number)},
         {.name = rank + ".safetensors", .tensors = {{"weight", at::full({300}, number)}}}});
  });
}

// The save that the checkpoint is of; 0 when there is none that is whole.
std::int64_t number_of(FileSystem& files) {
  const auto alone = single_communicator();
  try {
    const auto checked = check_checkpoint(files, *alone, kFolder);
    std::int64_t number = 0;
    for (int rank = 0; rank < checked.manifest.num_processes; ++rank) {
      const auto here =
          std::stoll(read_file(files, checked.folder / ("rank_" + std::to_string(rank)), 100));
      if (rank > 0 && here != number) return 0;
      number = here;
    }
    return number;
  } catch (const CheckpointError&) {
    return 0;
  }
}

// What each rank said of a save; "" where it was content.
std::vector<std::string> try_to_save(FileSystem& files, int n, std::int64_t number) {
  std::vector<std::string> said(static_cast<std::size_t>(n));
  run_ranks(n, [&](Communicator& ranks) {
    try {
      save(files, ranks, number);
    } catch (const CheckpointError& error) {
      said[static_cast<std::size_t>(ranks.rank())] = describe(error);
    }
  });
  return said;
}

std::size_t steps_of_a_first_save(int n) {
  FaultyFileSystem files({.folders_are_steps = true});
  try_to_save(files, n, 1);
  return files.steps();
}

struct Fault {
  const char* name;
  int ranks;
  int error;
  std::size_t failures;  // Steps in a row, so that clearing up fails too.
};

class CheckpointFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(CheckpointFaults, LeaveTheCheckpointOfBeforeAndSayWhy) {
  const auto [name, n, error, failures] = GetParam();
  const testing::LogCapture log;  // What could not be cleared up.
  const std::size_t first = steps_of_a_first_save(n);
  std::size_t failed = 0;
  for (std::size_t step = 0;; ++step) {
    FaultyFileSystem files(
        {.fail_at = first + step, .failures = failures, .error = error, .folders_are_steps = true});
    try_to_save(files, n, 1);
    const auto said = try_to_save(files, n, 2);
    if (files.steps() <= first + step) break;  // Nothing was left to fail.
    const auto found = number_of(files);
    for (const auto& sentence : said) {
      // Clearing up after a save that is complete is not worth an error.
      if (sentence.empty()) {
        EXPECT_EQ(found, 2) << "step " << step;
        continue;
      }
      ++failed;
      EXPECT_GE(found, 1) << "step " << step;
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, kFolder.string(), sentence);
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, std::strerror(error), sentence);
    }
    if (failures > 1) continue;
    for (const auto& sentence : try_to_save(files, n, 3)) EXPECT_EQ(sentence, "");
    EXPECT_EQ(number_of(files), 3) << "after a fault in step " << step;
  }
  EXPECT_GT(failed, 8U * static_cast<std::size_t>(n));
}

INSTANTIATE_TEST_SUITE_P(
    Errors, CheckpointFaults,
    ::testing::Values(Fault{"DiskFull", 1, ENOSPC, 1}, Fault{"DiskFullOnTwoRanks", 2, ENOSPC, 1},
                      Fault{"DiskStaysFull", 2, ENOSPC, 1000}, Fault{"InputOutput", 2, EIO, 1},
                      Fault{"ReadOnly", 1, EROFS, 1000}, Fault{"NoPermission", 1, EACCES, 1000},
                      Fault{"Quota", 1, EDQUOT, 1}, Fault{"StaleHandle", 1, ESTALE, 1},
                      Fault{"VanishedFolder", 2, ENOENT, 1000}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace accelerate
