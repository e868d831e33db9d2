#include "accelerate/watch/trackers/background_files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/support/faulty_file_system.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using detail::BackgroundFiles;
using testing::FaultPlan;
using testing::FaultyFileSystem;
using testing::LogCapture;

// Files that are written only when a test says so.
class BackgroundFilesTest : public ::testing::Test {
 protected:
  BackgroundFiles& on(FaultPlan plan, std::size_t max_waiting_bytes = 1 << 20) {
    disk_ = std::make_unique<FaultyFileSystem>(std::move(plan));
    files_ = std::make_unique<BackgroundFiles>(
        "the tracker 'x'", detail::BackgroundFilesOptions{.flush_interval = std::chrono::hours(1),
                                                          .max_waiting_bytes = max_waiting_bytes,
                                                          .files = disk_.get()});
    return *files_;
  }
  [[nodiscard]] std::string content() const { return disk_->visible().at("/runs/a"); }

  std::unique_ptr<FaultyFileSystem> disk_;
  std::unique_ptr<BackgroundFiles> files_;
};

TEST_F(BackgroundFilesTest, WritesRecordsInOrder) {
  auto& files = on({});
  files.append("runs/a", "1\n");
  files.append("runs/a", "2\n");
  EXPECT_TRUE(files.flush());
  files.append("runs/a", "3\n");
  EXPECT_TRUE(files.flush());
  EXPECT_EQ(content(), "1\n2\n3\n");
}

TEST_F(BackgroundFilesTest, AppendingTouchesNoDisk) {
  auto& files = on({});
  files.append("runs/a", "1\n");
  EXPECT_EQ(disk_->steps(), 0u);
}

TEST_F(BackgroundFilesTest, TheEndWritesWhatWaits) {
  on({}).append("runs/a", "1\n");
  files_.reset();
  EXPECT_EQ(content(), "1\n");
}

// Every step of two writes fails once, or three times in a row: the file is whole in the end.
TEST_F(BackgroundFilesTest, AFullDiskDelaysAndTearsNothing) {
  for (std::size_t step = 0; step < 4; ++step) {
    for (const std::size_t failures : {1u, 3u}) {
      const LogCapture log;
      auto& files = on({.fail_at = step, .failures = failures});
      files.append("runs/a", "first record\n");
      for (int i = 0; i < 6; ++i) {
        files.flush();
        files.append("runs/a", "more " + std::to_string(i) + "\n");
      }
      EXPECT_TRUE(files.flush());
      EXPECT_EQ(content(), "first record\nmore 0\nmore 1\nmore 2\nmore 3\nmore 4\nmore 5\n")
          << step;
    }
  }
}

TEST_F(BackgroundFilesTest, OneWarningSaysWhichFileAndWhyAndOneThatItWorksAgain) {
  const LogCapture log;
  auto& files = on({.fail_at = 1, .failures = 4});
  files.append("runs/a", "1\n");
  while (!files.flush()) files.append("runs/a", "more\n");
  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find(
                "WARNING accelerate.tracking: the tracker 'x': cannot write 'runs/a': No "
                "space left on device (errno 28) [accelerate.error/disk-full]. Training continues"),
            std::string::npos)
      << lines[0];
  EXPECT_NE(lines[1].find("'runs/a' again; nothing was lost"), std::string::npos) << lines[1];
}

TEST_F(BackgroundFilesTest, WhatFindsNoRoomInMemoryIsCounted) {
  const LogCapture log;
  auto& files = on({.fail_at = 0, .failures = 1}, 10);
  files.append("runs/a", "12345678\n");
  EXPECT_FALSE(files.flush());
  files.append("runs/a", "too much\n");
  EXPECT_TRUE(files.flush());
  EXPECT_EQ(content(), "12345678\n");
  EXPECT_NE(log.lines().back().find("1 records found no room in memory and are lost"),
            std::string::npos);
}

TEST_F(BackgroundFilesTest, WhatAGoodDiskFindsNoRoomForIsSaidToo) {
  const LogCapture log;
  auto& files = on({}, 10);
  files.append("runs/a", "12345678\n");
  files.append("runs/a", "too much\n");
  EXPECT_TRUE(files.flush());
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("more at once than it can write to 'runs/a': 1 records"),
            std::string::npos)
      << log.lines()[0];
}

TEST_F(BackgroundFilesTest, ARecordLargerThanTheMemoryIsTakenWhenNothingElseWaits) {
  const LogCapture log;
  auto& files = on({}, 10);
  files.append("runs/a", "0123456789abcdef\n");
  EXPECT_TRUE(files.flush());
  EXPECT_EQ(content(), "0123456789abcdef\n");
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(BackgroundFilesTest, AFullMemoryIsSaidWhileTheDiskRefuses) {
  const LogCapture log;
  auto& files = on({.fail_at = 0, .failures = 3}, 10);
  files.append("runs/a", "12345678\n");
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(files.flush());
    files.append("runs/a", "too much\n");
  }
  ASSERT_EQ(log.lines().size(), 2u);
  EXPECT_NE(log.lines()[1].find("has 10 bytes waiting for the disk"), std::string::npos);
}

TEST_F(BackgroundFilesTest, ALogThatRefusesToSpeakStopsNoFile) {
  const testing::ScopedEnv level("ACCELERATE_LOG_LEVEL", "loud");
  auto& files = on({.fail_at = 0, .failures = 1});
  files.append("runs/a", "1\n");
  EXPECT_FALSE(files.flush());
  EXPECT_TRUE(files.flush());
  EXPECT_EQ(content(), "1\n");
}

TEST_F(BackgroundFilesTest, AnEndWithAFullDiskSaysWhatIsLost) {
  const LogCapture log;
  on({.fail_at = 0, .failures = 1000}).append("runs/a", "12345\n");
  files_.reset();
  EXPECT_NE(log.lines().back().find("could not write its last 6 bytes"), std::string::npos);
}

TEST_F(BackgroundFilesTest, GoesOnBehindTheWholeRecordsOfAnEarlierRun) {
  auto& files = on({});
  disk_->put("runs/a", "whole\ntor");
  files.resume("runs/a", 6);
  files.append("runs/a", "next\n");
  EXPECT_TRUE(files.flush());
  EXPECT_EQ(content(), "whole\nnext\n");
}

TEST_F(BackgroundFilesTest, ARewriteComesBetweenWhatWasAppendedBeforeAndAfter) {
  auto& files = on({});
  files.append("runs/a", "1\n");
  files.rewrite("runs/a", [](const std::string& text) { return "head\n" + text; });
  files.append("runs/a", "2\n");
  EXPECT_TRUE(files.flush());
  EXPECT_EQ(content(), "head\n1\n2\n");
}

TEST_F(BackgroundFilesTest, ARewriteThatFailsIsTriedAgain) {
  for (std::size_t step = 0; step < 7; ++step) {
    const LogCapture log;
    auto& files = on({.fail_at = step, .failures = 2});
    files.append("runs/a", "1\n");
    files.rewrite("runs/a", [](const std::string& text) { return "head\n" + text; });
    files.append("runs/a", "2\n");
    for (int i = 0; i < 3; ++i) files.flush();
    EXPECT_TRUE(files.flush());
    EXPECT_EQ(content(), "head\n1\n2\n") << "failing from step " << step;
  }
}

TEST_F(BackgroundFilesTest, AFileThatSomeoneRemovesBeginsAnewWithItsHead) {
  const LogCapture log;
  auto& files = on({});
  files.set_head("runs/a", "head\n");
  files.append("runs/a", "head\n");
  files.append("runs/a", "1\n");
  ASSERT_TRUE(files.flush());
  disk_->remove("runs/a");
  files.append("runs/a", "2\n");
  EXPECT_TRUE(files.flush());
  files.append("runs/a", "3\n");
  EXPECT_TRUE(files.flush());
  EXPECT_EQ(content(), "head\n2\n3\n");
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("'runs/a' was removed while the tracker 'x' wrote to it"),
            std::string::npos);
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(BackgroundFiles, ThousandsOfFilesTakeFewDescriptors) {
  const testing::TemporaryFolder folder;
  BackgroundFiles files("the tracker 'x'", {.flush_interval = std::chrono::hours(1)});
  const auto before = open_descriptors();
  for (int i = 0; i < 2000; ++i) {
    files.write(folder.path() / ("image" + std::to_string(i)), "png");
    files.append(folder.path() / ("part" + std::to_string(i)), "1\n");
  }
  ASSERT_TRUE(files.flush());
  EXPECT_LE(open_descriptors(), before + 10);
  EXPECT_EQ(read_file(real_file_system(), folder.path() / "image1999", 100), "png");
  EXPECT_EQ(read_file(real_file_system(), folder.path() / "part1999", 100), "1\n");
}

TEST(BackgroundFiles, WritesAtOnceWhatBecomesMuch) {
  const testing::TemporaryFolder folder;
  BackgroundFiles files("the tracker 'x'",
                        {.flush_interval = std::chrono::hours(1), .hurry_bytes = 1000});
  for (int i = 0; i < 100; ++i) files.append(folder.path() / "a", std::string(100, 'x'));
  // Bounded by the test's own limit.
  while (files.waiting_bytes() >= 1000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The thread that writes is not there in a fork: to wait for it would take for ever, and to write
// in its place would write everything twice.
TEST(BackgroundFiles, BelongToTheProcessThatMadeThem) {
  const testing::TemporaryFolder folder;
  auto files = std::make_unique<BackgroundFiles>(
      "the tracker 'x'", detail::BackgroundFilesOptions{.flush_interval = std::chrono::hours(1)});
  files->append(folder.path() / "a", "1\n");
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    files.reset();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  files.reset();
  EXPECT_EQ(read_file(real_file_system(), folder.path() / "a", 100), "1\n");
}

TEST(BackgroundFiles, WritesByItselfAfterTheInterval) {
  const testing::TemporaryFolder folder;
  BackgroundFiles files("the tracker 'x'", {.flush_interval = std::chrono::milliseconds(1)});
  files.append(folder.path() / "sub" / "a", "1\n");
  // Bounded by the test's own limit.
  while (files.waiting_bytes() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(read_file(real_file_system(), folder.path() / "sub" / "a", 100), "1\n");
}

}  // namespace
}  // namespace accelerate
