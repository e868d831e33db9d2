#include "accelerate/base/machine/hardware.h"

#include <gtest/gtest.h>

#include "tests/comm/shared_memory/mebibyte.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

// A machine with 1000 MiB available, in control groups that a test writes.
class AvailableMemoryTest : public ::testing::Test {
 protected:
  AvailableMemoryTest() {
    folder_.write("proc/meminfo", "MemTotal: 2048000 kB\nMemAvailable:    1024000 kB\n");
  }
  void write(const std::string& name, std::uint64_t mebibytes) {
    folder_.write("sys/fs/cgroup/" + name, std::to_string(mebibytes * testing::kMiB) + "\n");
  }
  AvailableMemory available() {
    return available_memory(
        {.proc = folder_.path() / "proc", .dev = {}, .sys = folder_.path() / "sys"});
  }

  testing::TemporaryFolder folder_;
};

TEST_F(AvailableMemoryTest, IsTheMachinesWithoutControlGroups) {
  EXPECT_EQ(available().bytes, 1000 * testing::kMiB);
  EXPECT_EQ(available().where, "this machine");
}

TEST_F(AvailableMemoryTest, IsWhatTheGroupsLimitLeaves) {
  folder_.write("proc/self/cgroup", "0::/job\n");
  write("job/memory.max", 500);
  write("job/memory.current", 300);
  folder_.write("sys/fs/cgroup/job/memory.stat",
                "inactive_file_x 1\ninactive_file " + std::to_string(60 * testing::kMiB) +
                    "\nactive_file " + std::to_string(30 * testing::kMiB) + "\nslab_reclaimable " +
                    std::to_string(10 * testing::kMiB) + "\n");
  EXPECT_EQ(available().bytes, 300 * testing::kMiB);
  EXPECT_EQ(available().where, "this container (memory limit 500.00 MB)");
}

TEST_F(AvailableMemoryTest, FollowsTheTightestLimitOnTheWayUp) {
  folder_.write("proc/self/cgroup", "0::/outer/inner\n");
  folder_.write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("outer/inner/memory.current", 300);
  write("outer/memory.max", 400);
  write("outer/memory.current", 350);
  EXPECT_EQ(available().bytes, 50 * testing::kMiB);
}

TEST_F(AvailableMemoryTest, KnowsTheFirstVersionOfGroups) {
  folder_.write("proc/self/cgroup", "4:memory:/job\n3:cpu:/job\n0::/\n");
  write("memory/memory.limit_in_bytes", 200);
  write("memory/memory.usage_in_bytes", 250);
  EXPECT_EQ(available().bytes, 0U);
}

TEST_F(AvailableMemoryTest, IsUnlimitedWhereTheKernelDoesNotSay) {
  const testing::TemporaryFolder empty;
  EXPECT_EQ(available_memory({.proc = empty.path(), .dev = {}, .sys = empty.path()}).bytes,
            UINT64_MAX);
}

}  // namespace
}  // namespace accelerate
