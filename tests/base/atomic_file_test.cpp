// A file is old or new: after every failure, at every instant, and after a power cut at every step.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <functional>
#include <regex>
#include <thread>

#include "accelerate/base/file_system.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::FaultPlan;
using testing::FaultyFileSystem;
using testing::PowerCut;
using testing::TemporaryFolder;

const std::string kOld = "the old content";
const std::string kNew = "the new content, which is longer";
const std::string kPath = "/data/state.json";

// Writes the new content over the old under `plan`; whether the call returned.
bool overwrite(FaultyFileSystem& files, AtomicFileOptions options = {}) {
  files.put(kPath, kOld);
  try {
    write_file_atomically(files, kPath, kNew, options);
    return true;
  } catch (const PowerCut&) {
    return false;
  }
}

std::size_t steps_of_a_write() {
  FaultyFileSystem files;
  overwrite(files);
  return files.steps();
}

// The faults of all states after a power cut at any step, of a file system with these syncs.
std::vector<std::string> faults_after_power_cuts(bool file_sync_works, bool directory_sync_works) {
  std::vector<std::string> faults;
  for (std::size_t step = 0; step <= steps_of_a_write(); ++step) {
    FaultyFileSystem files({.cut_power_at = step,
                            .file_sync_works = file_sync_works,
                            .directory_sync_works = directory_sync_works});
    const bool returned = overwrite(files);
    for (auto& state : files.after_power_cut()) {
      const std::string& found = state[kPath];
      if (found != kNew && (found != kOld || returned)) {
        faults.push_back("step " + std::to_string(step) + ": '" + found + "'");
      }
    }
  }
  return faults;
}

TEST(AtomicFile, IsOldOrNewAfterAPowerCutAtAnyStepAndNewOnceItReturned) {
  EXPECT_GE(steps_of_a_write(), 6);  // create, write, sync, close, rename, sync of the directory.
  EXPECT_EQ(faults_after_power_cuts(true, true), std::vector<std::string>());
}

TEST(AtomicFile, NeedsEachOfItsSyncs) {
  EXPECT_NE(faults_after_power_cuts(false, true), std::vector<std::string>());
  EXPECT_NE(faults_after_power_cuts(true, false), std::vector<std::string>());
}

TEST(AtomicFile, WithoutDurabilityReadersStillSeeOldOrNew) {
  for (std::size_t step = 0; step <= steps_of_a_write(); ++step) {
    FaultyFileSystem files({.cut_power_at = step});
    const bool returned = overwrite(files, {.durable = false});
    const std::string seen = files.visible().at(kPath);
    EXPECT_TRUE(seen == kNew || (seen == kOld && !returned)) << "step " << step << ": " << seen;
  }
}

TEST(AtomicFile, AFailureAtAnyStepIsReportedAndLeavesNothingBehind) {
  const std::size_t steps = steps_of_a_write();
  for (const int error : {ENOSPC, EIO, EACCES}) {
    for (std::size_t step = 0; step < steps; ++step) {
      FaultyFileSystem files({.fail_at = step, .error = error});
      try {
        overwrite(files);
        ADD_FAILURE() << "step " << step << " failed unheard";
      } catch (const FileError& failure) {
        EXPECT_EQ(failure.error_number(), error);
      }
      const bool last = step + 1 == steps;  // Of the directory's sync: the new file is in place.
      EXPECT_EQ(files.visible(), (FaultyFileSystem::Contents{{kPath, last ? kNew : kOld}})) << step;
    }
  }
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  FaultyFileSystem files;
  files.put(kPath, kOld);
  {
    AtomicFile(files, kPath).write(kNew);
  }
  EXPECT_EQ(files.visible(), (FaultyFileSystem::Contents{{kPath, kOld}}));
}

TEST(AtomicFile, OnARealFileSystemItReplacesAndLeavesNoSibling) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.txt", kOld);
  write_file_atomically(real_file_system(), path, kNew);
  EXPECT_EQ(read_file(real_file_system(), path, 1000), kNew);
  EXPECT_EQ(real_file_system().list(folder.path()), std::vector<std::string>{"a.txt"});
}

TEST(AtomicFile, TheModeFollowsTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(027);
  write_file_atomically(real_file_system(), folder.path() / "a", "x");
  umask(before);
  struct stat status{};
  ASSERT_EQ(stat((folder.path() / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TEST(AtomicFile, AFileThatMayNotGrowLeavesTheOldOne) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.txt", kOld);
  auto* const before = signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{4096, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(write_file_atomically(real_file_system(), path, std::string(1 << 20, 'x')),
               FileError);
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, before);
  EXPECT_EQ(read_file(real_file_system(), path, 1000), kOld);
  EXPECT_EQ(real_file_system().list(folder.path()).size(), 1);
}

TEST(AtomicFile, ConcurrentWritersLeaveTheWholeOfOne) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a";
  {
    std::vector<std::jthread> writers;
    for (char letter = 'a'; letter < 'e'; ++letter) {
      writers.emplace_back([&path, letter] {
        for (int i = 0; i < 20; ++i) {
          write_file_atomically(real_file_system(), path, std::string(10'000, letter),
                                {.durable = false});
        }
      });
    }
  }
  const std::string found = read_file(real_file_system(), path, 100'000);
  EXPECT_EQ(found, std::string(10'000, found.at(0)));
  EXPECT_EQ(real_file_system().list(folder.path()).size(), 1);
}

TEST(AtomicFile, NamesThatCannotBeAFileAreRefused) {
  const TemporaryFolder folder;
  for (const std::filesystem::path& path :
       {folder.path() / "", folder.path() / "..", std::filesystem::path(""),
        folder.path() / "missing" / "a", folder.path() / std::string(300, 'n')}) {
    EXPECT_THROW(write_file_atomically(real_file_system(), path, "x"), FileError) << path;
  }
  EXPECT_EQ(real_file_system().list(folder.path()).size(), 0);
  write_file_atomically(real_file_system(), folder.path() / std::string(255, 'n'), "x");
}

}  // namespace
}  // namespace accelerate
