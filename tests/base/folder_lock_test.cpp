// A folder has one holder at a time, however that holder ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <regex>
#include <thread>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/folder_lock.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

class FolderLocks : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<FolderLock> lock() const { return files_.lock(folder_.path()); }
  [[nodiscard]] std::string refusal() const {
    try {
      (void)lock();
      return "";
    } catch (const FolderInUse& error) {
      return error.what();
    }
  }

  testing::TemporaryFolder folder_;
  FileSystem& files_ = real_file_system();
};

TEST_F(FolderLocks, TheSecondIsToldWhoHasIt) {
  auto first = lock();
  const std::string pattern = "cannot lock '.*': it is in use by process " +
                              std::to_string(getpid()) + " on host [^ ]+\\. Wait until .*";
  EXPECT_TRUE(std::regex_match(refusal(), std::regex(pattern))) << refusal();
  first.reset();
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(files_.list(folder_.path()), std::vector<std::string>());
}

// A process that may write no byte to any file, as on a full disk.
TEST_F(FolderLocks, AFullDiskKeepsNobodyFromLocking) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    try {
      const auto first = lock();
      _exit(refusal().find("in use by another process") != std::string::npos ? 0 : 1);
    } catch (...) {
      _exit(2);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// A lock that a fork has too is let go of by the process that took it.
TEST_F(FolderLocks, AForkDoesNotRemoveTheFile) {
  auto first = lock();
  const pid_t child = fork();
  if (child == 0) {
    first.reset();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_NE(refusal(), "");
}

// A child that takes the lock, says so, and waits to be killed.
pid_t child_that_holds(const std::filesystem::path& folder) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    try {
      const auto lock = real_file_system().lock(folder);
      if (write(ends[1], "x", 1) == 1) pause();
    } catch (...) {
    }
    _exit(1);
  }
  char byte = 0;
  const Descriptor out(ends[0]);
  Descriptor(ends[1]).close();
  return read(out.get(), &byte, 1) == 1 ? child : -1;
}

TEST_F(FolderLocks, AProcessThatIsKilledLosesItAndLeavesNothingInTheWay) {
  const pid_t child = child_that_holds(folder_.path());
  ASSERT_GT(child, 0);
  EXPECT_NE(refusal().find("process " + std::to_string(child)), std::string::npos) << refusal();
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(files_.list(folder_.path()), std::vector<std::string>{".lock"});
  const auto ours = lock();
  EXPECT_NE(refusal().find("process " + std::to_string(getpid())), std::string::npos) << refusal();
}

TEST_F(FolderLocks, OfManyThreadsOneHasItAtATime) {
  std::atomic<int> holders = 0, taken = 0;
  std::atomic<bool> shared = false;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 300; ++k) {
          try {
            const auto held = lock();
            if (++holders > 1) shared = true;
            ++taken;
            --holders;
          } catch (const FolderInUse&) {
          }
        }
      });
    }
  }
  EXPECT_FALSE(shared);
  EXPECT_GT(taken, 0);
  EXPECT_EQ(files_.list(folder_.path()), std::vector<std::string>());
}

TEST_F(FolderLocks, AFileThatALeavingHolderRemovedIsNotTakenForTheLock) {
  const auto path = folder_.path() / ".lock";
  auto first = lock();
  Descriptor late(open(path.c_str(), O_RDWR | O_CLOEXEC));
  first.reset();  // Between the late one's opening and its locking.
  EXPECT_EQ(detail::lock_opened(std::move(late), folder_.path(), path), nullptr);
  Descriptor in_time(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_NE(detail::lock_opened(std::move(in_time), folder_.path(), path), nullptr);
}

TEST_F(FolderLocks, WhatCannotBeLockedIsAFileError) {
  const auto file = folder_.write("a", "");
  EXPECT_THROW((void)files_.lock(folder_.path() / "none"), FileError);
  EXPECT_THROW((void)files_.lock(file), FileError);
}

TEST_F(FolderLocks, ALinkOrAPipeInItsPlaceIsNotFollowed) {
  const auto other = folder_.write("other", "precious");
  std::filesystem::create_symlink(other, folder_.path() / ".lock");
  EXPECT_THROW((void)lock(), FileError);
  EXPECT_EQ(files_.read(other, 100), "precious");
  files_.remove(folder_.path() / ".lock");
  ASSERT_EQ(mkfifo((folder_.path() / ".lock").c_str(), 0600), 0);
  EXPECT_THROW((void)lock(), FileError);
}

}  // namespace
}  // namespace accelerate
