// What the system does to an arena: too little memory, limits, forks, a tiny /dev/shm.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/arena.h"
#include "accelerate/comm/shared_memory/memory_file.h"
#include "tests/comm/shared_memory/mebibyte.h"
#include "tests/support/ranks.h"

namespace accelerate::detail {
namespace {

using testing::run_processes;

std::string message_of(SharedArena& arena, std::size_t bytes) {
  try {
    (void)arena.allocate(bytes);
  } catch (const CommError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(SharedArena, SaysHowMuchMemoryThereIsWhenThereIsNotEnough) {
  const auto arena = SharedArena::create();
  const auto before = arena->bytes_reserved();
  for (const std::size_t bytes : {std::size_t{1} << 50, SIZE_MAX}) {
    const auto message = message_of(*arena, bytes);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, " left. Use fewer ranks", message);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "ACCELERATE_COMM=gloo", message);
  }
  EXPECT_EQ(arena->bytes_reserved(), before);
  EXPECT_TRUE(arena->allocate(testing::kMiB));  // and goes on
}

void limit(int resource, rlim_t most) {
  rlimit before{};
  getrlimit(static_cast<__rlimit_resource>(resource), &before);
  const rlimit now{most, before.rlim_max};
  setrlimit(static_cast<__rlimit_resource>(resource), &now);
}

RANK_MAIN(arena_within_a_file_size_limit) {
  limit(RLIMIT_FSIZE, 8 * testing::kMiB);
  const auto arena = SharedArena::create();
  const auto small = arena->allocate(4 * testing::kMiB);  // a segment of 16 MiB would be too large
  std::cout << message_of(*arena, 16 * testing::kMiB) << std::endl;
  return 0;
}

RANK_MAIN(arena_without_address_space) {
  const auto arena = SharedArena::create();
  limit(RLIMIT_AS, 1 * testing::kMiB);
  const auto message = message_of(*arena, 64 * testing::kMiB);
  limit(RLIMIT_AS, RLIM_INFINITY);
  std::cout << message << std::endl;
  return 0;
}

RANK_MAIN(arena_without_descriptors) {
  limit(RLIMIT_NOFILE, 0);
  try {
    (void)SharedArena::create();
  } catch (const CommError& error) {
    std::cout << error.what() << std::endl;
  }
  return 0;
}

TEST(SharedArena, NamesTheLimitThatItMeets) {
  const std::map<std::string, std::string> cases = {
      {"arena_within_a_file_size_limit", "ulimit -f unlimited"},
      {"arena_without_address_space", "ulimit -v"},
      {"arena_without_descriptors", "ulimit -n"}};
  for (const auto& [body, expected] : cases) {
    const auto result = run_processes(1, body).front();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, expected, result.out);
  }
}

// Exit code of a fork that runs `body`; 99 when that throws, which must not run the other tests.
int in_a_fork(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      _exit(body());
    } catch (...) {
      _exit(99);
    }
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(SharedArena, IsRefusedToAForkOfItsProcess) {
  const auto arena = SharedArena::create();
  EXPECT_EQ(in_a_fork([&] {
              try {
                (void)arena->allocate(10);
              } catch (const UsageError&) {
                return 7;
              }
              return 0;
            }),
            7);
  EXPECT_FALSE(forked());
}

TEST(SharedArena, IsNotTouchedByWhatAForkFrees) {
  const auto arena = SharedArena::create();
  auto block = arena->allocate(300 * testing::kMiB);
  std::memset(block.data(), 9, block.size());
  EXPECT_EQ(in_a_fork([&] {
              block.reset();
              return 0;
            }),
            0);
  EXPECT_TRUE(std::all_of(block.data(), block.data() + block.size(),
                          [](std::byte byte) { return byte == std::byte{9}; }));
}

// In a process of its own, for the other tests here have made arenas.
RANK_MAIN(arena_in_a_fork_made_before) {
  return in_a_fork([] { return SharedArena::create()->allocate(10) ? 5 : 0; });
}

TEST(SharedArena, WorksInAForkMadeBeforeAnyArena) {
  EXPECT_EQ(run_processes(1, "arena_in_a_fork_made_before").front().exit_code, 5);
}

// As in a container; in a mount namespace of its own.
RANK_MAIN(arena_beside_a_tiny_dev_shm) {
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
    return 77;
  }
  const auto block = SharedArena::create()->allocate(100 * testing::kMiB);
  std::memset(block.data(), 1, block.size());
  return 0;
}

TEST(SharedArena, DoesNotNeedDevShm) {
  const auto result = run_processes(1, "arena_beside_a_tiny_dev_shm").front();
  if (result.exit_code == 77) GTEST_SKIP() << "no right to make a mount namespace";
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(SharedArena, LeavesNothingInDevShm) {
  const auto names = [] {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      all.insert(entry.path().filename());
    }
    return all;
  };
  const auto before = names();
  const auto arena = SharedArena::create();
  EXPECT_EQ(names(), before);
}

TEST(MemoryFile, CannotBeMadeSmallerUnderItsPeers) {
  MemoryFile file;
  std::byte* address = file.add(0, 8192);
  EXPECT_NE(ftruncate(file.fd(), 4096), 0);
  EXPECT_EQ(file_bytes(file.fd()), 8192U);
  unmap_shared(reinterpret_cast<std::uint64_t>(address), 8192);
}

}  // namespace
}  // namespace accelerate::detail
