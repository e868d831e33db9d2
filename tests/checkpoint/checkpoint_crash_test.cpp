// A power cut at any instant of a save leaves the newest complete checkpoint whole; and the same
// test fails as soon as any one sync is left out.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "accelerate/checkpoint/background_save.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/checkpoint/numbered_checkpoints.h"
#include "accelerate/checkpoint/state_file.h"
#include "tests/support/crash_file_system.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::CrashFileSystem;
using testing::CrashOptions;
using testing::CrashPoint;
using testing::DiskState;
using testing::run_ranks;
using Path = std::filesystem::path;

// Each rank's state tells which save it is of.
std::vector<PlannedFile> plan_of(int rank, std::int64_t number) {
  return plan_state("state_" + std::to_string(rank),
                    {{"number", number}, {"tensor", at::full({3}, number)}});
}

void save(FileSystem& files, Communicator& ranks, const Path& folder, std::int64_t number) {
  save_checkpoint(files, ranks, folder, [&](const Path& temporary) {
    return write_planned(files, temporary, plan_of(ranks.rank(), number));
  });
}

// The same by a thread of its own, as asynchronous saves do it.
void save_in_background(FileSystem& files, Communicator& ranks, const Path& folder,
                        std::int64_t number) {
  BackgroundSave saves;
  const auto checkpoint = std::make_shared<PendingCheckpoint>(files, ranks, folder);
  auto planned = saves.copy(plan_of(ranks.rank(), number));
  saves.start(ranks, [&files, checkpoint, planned = std::move(planned)](Communicator& group) {
    checkpoint->complete(
        group, [&](const Path& temporary) { return write_planned(files, temporary, planned); });
  });
  saves.wait();
}

// The save that a checkpoint is of: all its files must agree. Throws CheckpointError.
std::int64_t number_of(FileSystem& files, const Path& folder) {
  const auto alone = single_communicator();
  const auto checked = check_checkpoint(files, *alone, folder);
  std::int64_t number = -1;
  for (int rank = 0; rank < checked.manifest.num_processes; ++rank) {
    const auto state = read_state_file(files, checked.folder, "state_" + std::to_string(rank));
    const auto here = state.at("number").to<std::int64_t>();
    if ((rank > 0 && here != number) ||
        state.at("tensor").to<at::Tensor>()[0].item().toInt() != here)
      throw CheckpointError("files of two saves in " + folder.string());
    number = here;
  }
  return number;
}

// What load_state() would find after a crash: the newest checkpoint, which must load; -1: none.
std::int64_t newest(const DiskState& disk) {
  CrashFileSystem files(disk);
  const auto all = numbered_checkpoints(files, "/runs/checkpoints", "checkpoint_");
  return all.empty() ? -1 : number_of(files, all.back().folder);
}

// How many of the crashes leave less than was promised before them.
std::size_t faults(const CrashFileSystem& files, const CrashOptions& options,
                   const std::function<std::int64_t(const DiskState&)>& found) {
  std::size_t count = 0, crashes = 0;
  files.for_each_crash(
      [&](const CrashPoint& point, const DiskState& disk) {
        ++crashes;
        const std::int64_t promised = point.passed("second") ? 2 : point.passed("first") ? 1 : -1;
        try {
          if (found(disk) < promised) ++count;
        } catch (const Error&) {
          ++count;
        }
      },
      options);
  EXPECT_GT(crashes, 20U);
  return count;
}

void expect_every_sync_to_matter(const CrashFileSystem& files,
                                 const std::function<std::int64_t(const DiskState&)>& found) {
  EXPECT_EQ(faults(files, {}, found), 0U);
  const auto syncs = files.syncs();
  EXPECT_GT(syncs.size(), 5U);
  for (std::size_t i = 0; i < syncs.size(); ++i)
    EXPECT_GT(faults(files, {.without_sync = i}, found), 0U) << "nothing needs " << syncs[i];
}

class CheckpointCrash : public ::testing::TestWithParam<int> {};

TEST_P(CheckpointCrash, LeavesTheNewestCompleteCheckpointOfSeveral) {
  CrashFileSystem files;
  run_ranks(GetParam(), [&](Communicator& ranks) {
    save(files, ranks, "/runs/checkpoints/checkpoint_0", 1);
    if (ranks.rank() == 0) files.mark("first");
    ranks.barrier();
    save(files, ranks, "/runs/checkpoints/checkpoint_1", 2);
    if (ranks.rank() == 0) files.mark("second");
  });
  expect_every_sync_to_matter(files, newest);
}

TEST_P(CheckpointCrash, LeavesTheNewestCompleteOneOfTheBackground) {
  CrashFileSystem files;
  run_ranks(GetParam(), [&](Communicator& ranks) {
    save_in_background(files, ranks, "/runs/checkpoints/checkpoint_0", 1);
    if (ranks.rank() == 0) files.mark("first");
    ranks.barrier();
    save_in_background(files, ranks, "/runs/checkpoints/checkpoint_1", 2);
    if (ranks.rank() == 0) files.mark("second");
  });
  expect_every_sync_to_matter(files, newest);
}

TEST_P(CheckpointCrash, LeavesTheOldOrTheNewOneWhereItIsReplaced) {
  CrashFileSystem files;
  run_ranks(GetParam(), [&](Communicator& ranks) {
    save(files, ranks, "/runs/a", 1);
    if (ranks.rank() == 0) files.mark("first");
    ranks.barrier();
    save(files, ranks, "/runs/a", 2);
    if (ranks.rank() == 0) files.mark("second");
  });
  expect_every_sync_to_matter(files, [](const DiskState& disk) -> std::int64_t {
    CrashFileSystem after(disk);
    const auto exists = [&](const char* path) {
      return after.status(path).kind == FileKind::directory;
    };
    if (!exists("/runs/a") && !exists("/runs/.checkpoint-old-a")) return -1;
    return number_of(after, "/runs/a");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CheckpointCrash, ::testing::Values(1, 2));

}  // namespace
}  // namespace accelerate
