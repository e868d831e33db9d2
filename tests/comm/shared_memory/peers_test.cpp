#include "accelerate/comm/shared_memory/peers.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstring>
#include <map>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "accelerate/base/error.h"
#include "tests/comm/shared_memory/mebibyte.h"
#include "tests/comm/shared_memory/meetings.h"

namespace accelerate::detail {
namespace {

using testing::meet_as_threads;

TEST(LocalPeers, AGroupOfOneIsItsOwnHost) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto hosts = meet_hosts(store, 0, 1, std::chrono::seconds(5));
  EXPECT_EQ(hosts.why_not, "");
  EXPECT_EQ(hosts.host_of, std::vector<int>{0});
  EXPECT_EQ(hosts.peers->size(), 1);
  EXPECT_EQ(hosts.peers->index(), 0);
}

TEST(LocalPeers, AllRanksOfAHostMeetInRankOrder) {
  for (const int n : {2, 3, 8}) {
    meet_as_threads(n, [n](int rank, const Hosts& hosts) {
      ASSERT_EQ(hosts.why_not, "");
      EXPECT_EQ(hosts.host_of, std::vector<int>(static_cast<std::size_t>(n), 0));
      EXPECT_EQ(hosts.peers->size(), n);
      EXPECT_EQ(hosts.peers->index(), rank);
    });
  }
}

// More than fit into one message. As threads they need each other's descriptors in one process.
TEST(LocalPeers, FortyRanksMeet) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 4096) GTEST_SKIP() << "RLIMIT_NOFILE is " << limit.rlim_max;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &raised), 0);
  std::atomic<int> met = 0;
  meet_as_threads(40, [&met](int rank, const Hosts& hosts) {
    EXPECT_EQ(hosts.why_not, "");
    if (hosts.peers && hosts.peers->size() == 40 && hosts.peers->index() == rank) ++met;
  });
  EXPECT_EQ(met, 40);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// What a rank writes into a block of its own is read by all others where its extent says.
TEST(LocalPeers, SeeWhatTheOthersWrite) {
  std::vector<SharedExtent> extents(3);
  testing::Turnstile turnstile(3);
  meet_as_threads(3, [&](int rank, const Hosts& hosts) {
    LocalPeers& peers = *hosts.peers;
    const auto own = peers.arena()->allocate(3 * testing::kMiB);
    std::memset(own.data(), 10 + rank, own.size());
    extents[static_cast<std::size_t>(rank)] = own.extent();
    turnstile.wait();
    for (int peer = 0; peer < 3; ++peer) {
      const auto& extent = extents[static_cast<std::size_t>(peer)];
      const std::byte* theirs = peers.map(peer, extent);
      EXPECT_EQ(theirs[0], static_cast<std::byte>(10 + peer));
      EXPECT_EQ(theirs[extent.bytes - 1], static_cast<std::byte>(10 + peer));
      EXPECT_EQ(theirs == own.data(), peer == rank);
    }
    turnstile.wait();
  });
}

TEST(LocalPeers, WriteWhatTheOwnerSees) {
  std::vector<SharedExtent> extents(2);
  testing::Turnstile turnstile(2);
  meet_as_threads(2, [&](int rank, const Hosts& hosts) {
    const auto own = hosts.peers->arena()->allocate(100);
    extents[static_cast<std::size_t>(rank)] = own.extent();
    turnstile.wait();
    hosts.peers->map(1 - rank, extents[static_cast<std::size_t>(1 - rank)])[99] =
        static_cast<std::byte>(rank);
    turnstile.wait();
    EXPECT_EQ(own.data()[99], static_cast<std::byte>(1 - rank));
    turnstile.wait();
  });
}

TEST(LocalPeers, MapASegmentOnce) {
  std::vector<SharedExtent> extents(2);
  testing::Turnstile turnstile(2);
  meet_as_threads(2, [&](int rank, const Hosts& hosts) {
    const auto a = hosts.peers->arena()->allocate(100);
    const auto b = hosts.peers->arena()->allocate(100);
    if (rank == 0) extents = {a.extent(), b.extent()};
    turnstile.wait();
    if (rank == 1) {
      const auto distance = static_cast<std::ptrdiff_t>(extents[1].offset - extents[0].offset);
      const std::byte* first = hosts.peers->map(0, extents[0]);
      EXPECT_EQ(hosts.peers->map(0, extents[0]), first);
      EXPECT_EQ(hosts.peers->map(0, extents[1]) - first, distance);
    }
    turnstile.wait();
  });
}

TEST(LocalPeers, RefuseToMapWhatIsNotThere) {
  constexpr std::uint64_t kSegment = 2 * testing::kMiB;  // where the second one begins
  constexpr std::uint64_t kFar = 1024 * testing::kMiB;
  constexpr std::uint64_t kHuge = UINT64_MAX - 4095;
  const std::map<std::string, SharedExtent> bad = {
      {"a segment longer than the file", {kSegment, kFar, kSegment, 64}},
      {"a segment beyond the file", {kFar, 4096, kFar, 64}},
      {"bytes behind the segment", {kSegment, testing::kMiB, kSegment + testing::kMiB, 1}},
      {"bytes across its end", {kSegment, testing::kMiB, kSegment + testing::kMiB - 32, 64}},
      {"bytes before it", {kSegment + 4096, 4096, kSegment, 64}},
      {"not whole pages", {kSegment + 100, 4096, kSegment + 100, 64}},
      {"no bytes", {kSegment + 4096, 0, kSegment + 4096, 0}},
      {"an end that overflows", {kHuge, 8192, kHuge, 64}},
      {"a length that overflows", {kSegment, testing::kMiB, kSegment + 64, UINT64_MAX}}};
  testing::Turnstile turnstile(2);
  meet_as_threads(2, [&](int rank, const Hosts& hosts) {
    const auto block = hosts.peers->arena()->allocate(5 * testing::kMiB);
    turnstile.wait();
    for (const auto& [what, extent] : bad) {
      EXPECT_THROW((void)hosts.peers->map(1 - rank, extent), CommError) << what;
    }
    EXPECT_THROW((void)hosts.peers->map(rank, {kFar, 4096, kFar, 64}), CommError);
    EXPECT_NO_THROW((void)hosts.peers->map(1 - rank, block.extent()));  // alike in both
    turnstile.wait();
  });
}

TEST(LocalPeers, ThreadsMapAtOnce) {
  std::vector<SharedExtent> extents;
  testing::Turnstile turnstile(2);
  meet_as_threads(2, [&](int rank, const Hosts& hosts) {
    std::vector<SharedArena::Block> blocks;
    for (int i = 0; i < 8 && rank == 0; ++i) {
      blocks.push_back(hosts.peers->arena()->allocate(17 * testing::kMiB));
      std::memset(blocks.back().data(), i, 1);
      extents.push_back(blocks.back().extent());
    }
    turnstile.wait();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4 && rank == 1; ++thread) {
      threads.emplace_back([&] {
        for (std::size_t i = 0; i < extents.size(); ++i) {
          EXPECT_EQ(*hosts.peers->map(0, extents[i]), static_cast<std::byte>(i));
        }
      });
    }
    for (auto& thread : threads) thread.join();
    turnstile.wait();
  });
}

TEST(LocalPeers, ThreadsOfOneProcessAreAlive) {
  meet_as_threads(2, [](int rank, const Hosts& hosts) {
    EXPECT_TRUE(hosts.peers->is_alive(1 - rank));
    EXPECT_EQ(hosts.peers->describe(1 - rank), "process " + std::to_string(getpid()));
  });
}

TEST(LocalPeers, TwoJobsAtOnceNeverMeet) {
  std::vector<std::thread> jobs;
  for (int job = 0; job < 4; ++job) {
    jobs.emplace_back([] {
      meet_as_threads(2, [](int, const Hosts& hosts) { EXPECT_EQ(hosts.peers->size(), 2); });
    });
  }
  for (auto& job : jobs) job.join();
}

TEST(LocalPeers, LeaveNoDescriptorsBehind) {
  const auto before = testing::open_descriptors();
  meet_as_threads(3, [](int, const Hosts&) {});
  EXPECT_EQ(testing::open_descriptors(), before);
}

TEST(LocalPeers, KeepTwoDescriptorsForEachRankAndLetNoProgramInheritThem) {
  const auto open = testing::open_descriptors();
  const auto inheritable = testing::inheritable_descriptors();
  testing::Turnstile turnstile(2);
  meet_as_threads(2, [&](int rank, const Hosts& hosts) {
    turnstile.wait();
    if (rank == 0) {
      EXPECT_EQ(testing::open_descriptors(), open + 2 * (2 * 2 + 1));  // and one for the arena
      EXPECT_EQ(testing::inheritable_descriptors(), inheritable);
    }
    turnstile.wait();
  });
}

}  // namespace
}  // namespace accelerate::detail
