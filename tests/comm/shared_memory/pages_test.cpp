// Pages that ranks have in common: one copy, seen by all, given back when the last has let go.
#include "accelerate/comm/shared_memory/pages.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>

#include <filesystem>
#include <iostream>
#include <sstream>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/comm/rendezvous.h"
#include "accelerate/comm/shared_memory/arena.h"
#include "accelerate/comm/shared_memory/window.h"
#include "tests/comm/shared_memory/mebibyte.h"
#include "tests/support/errors.h"
#include "tests/support/proportional_memory.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::Engine;
using testing::message_of;
using testing::run_ranks;

constexpr testing::RanksOptions kThroughPages{.timeout = 20s, .engine = Engine::shared_memory};

bool all_are(const at::Tensor& bytes, int value) {
  return bytes.eq(value).all().item<bool>();
}

// Every rank writes its slice of `pages` and finds the others' in place.
void write_and_read(Communicator& comm, const at::Tensor& pages) {
  const auto slices = pages.chunk(comm.size());
  const auto mine = static_cast<std::size_t>(comm.rank());
  slices[mine].fill_(10 + comm.rank());
  comm.barrier();
  for (int rank = 0; rank < comm.size(); ++rank) {
    EXPECT_TRUE(all_are(slices[static_cast<std::size_t>(rank)], 10 + rank)) << rank;
  }
  comm.barrier();
}

TEST(SharedPages, WhatARankWritesAllSeeAfterABarrier) {
  for (const std::size_t bytes : {3UL, 4096UL, 1'000'003UL}) {
    run_ranks(
        3,
        [bytes](Communicator& comm) {
          const auto pages = SharedPages::create(comm, bytes);
          EXPECT_EQ(pages->bytes(), bytes);
          EXPECT_EQ(pages->local().sizes(), at::IntArrayRef(static_cast<std::int64_t>(bytes)));
          EXPECT_EQ(pages->local().scalar_type(), at::kByte);
          write_and_read(comm, pages->local());
        },
        kThroughPages);
  }
}

TEST(SharedPages, LargeOnesBeginOnAPage) {
  run_ranks(
      2,
      [](Communicator& comm) {
        const auto pages = SharedPages::create(comm, 1 << 20);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages->local().data_ptr()) % 4096, 0U);
        comm.barrier();
      },
      kThroughPages);
}

TEST(SharedPages, NoBytesAreATensorWithoutElements) {
  run_ranks(
      2, [](Communicator& comm) { EXPECT_EQ(SharedPages::create(comm, 0)->local().numel(), 0); },
      kThroughPages);
}

TEST(SharedPages, CannotGrow) {
  run_ranks(
      2,
      [](Communicator& comm) {
        const auto pages = SharedPages::create(comm, 100);
        EXPECT_THROW(pages->local().resize_({200}), c10::Error);
      },
      kThroughPages);
}

TEST(SharedPages, AGroupOfOneHasMemoryOfItsOwn) {
  const auto comm = single_communicator();
  EXPECT_TRUE(SharedPages::possible(*comm));
  const auto pages = SharedPages::create(*comm, 5000);
  write_and_read(*comm, pages->local());
  EXPECT_EQ(pages->bytes(), 5000U);
}

// Ranks 3 and 1 in this order, so that neither numbers nor order are those of the host; and 0
// and 2.
TEST(SharedPages, GroupsThatWereSplitOffHaveTheirOwn) {
  run_ranks(
      4,
      [](Communicator& comm) {
        const auto odd = comm.split({3, 1});
        const auto even = comm.split({0, 2});
        auto& part = odd ? *odd : *even;
        EXPECT_TRUE(SharedPages::possible(part));
        const auto pages = SharedPages::create(part, 100'000);
        pages->local().fill_(77);
        part.barrier();
        write_and_read(part, pages->local());
        comm.barrier();
      },
      kThroughPages);
}

TEST(SharedWindow, GroupsThatWereSplitOffHaveTheirOwn) {
  run_ranks(
      4,
      [](Communicator& comm) {
        const auto odd = comm.split({3, 1});
        const auto even = comm.split({0, 2});
        auto& part = odd ? *odd : *even;
        const auto window = SharedWindow::create(part, 100'000);
        window->open();
        window->local().fill_(comm.rank());
        window->publish(1);
        const auto copy = torch::empty({100'000}, at::kByte);
        window->read(1 - part.rank(), 0, copy, 1);
        const int other = odd ? 4 - comm.rank() : 2 - comm.rank();
        EXPECT_TRUE(all_are(copy, other));
        comm.barrier();
      },
      kThroughPages);
}

TEST(SharedPages, StayWhileAnyRankHasATensorOfThemAlsoWithoutTheGroup) {
  at::Tensor kept;
  run_ranks(
      3,
      [&](Communicator& comm) {
        const auto part = comm.split({0, 1, 2});
        const auto pages = SharedPages::create(*part, 300'000);
        write_and_read(*part, pages->local());
        if (comm.rank() == 2) kept = pages->local().narrow(0, 100'000, 100'000);
      },
      kThroughPages);
  EXPECT_TRUE(all_are(kept, 11));
}

TEST(SharedPages, TheirMemoryIsUsedAgainOnceTheLastRankLetsGo) {
  for (const int last : {0, 1}) {
    run_ranks(
        2,
        [last](Communicator& comm) {
          auto pages = SharedPages::create(comm, testing::kMiB - 4096);
          const auto* const where = static_cast<std::byte*>(pages->local().data_ptr()) - 4096;
          const auto is_free = [&] {
            return comm.empty({testing::kMiB}, at::kByte).data_ptr() == where;
          };
          if (comm.rank() != last) pages.reset();
          comm.barrier();
          EXPECT_FALSE(comm.rank() == 0 && is_free()) << last;
          comm.barrier();
          pages.reset();
          comm.barrier();
          EXPECT_TRUE(comm.rank() != 0 || is_free()) << last;
        },
        kThroughPages);
  }
}

TEST(SharedPages, GroupsWithoutSharedMemoryAreRefused) {
  for (const Engine engine : {Engine::gloo, Engine::hierarchy}) {
    run_ranks(2,
              [](Communicator& comm) {
                EXPECT_FALSE(SharedPages::possible(comm));
                EXPECT_PRED_FORMAT2(
                    ::testing::IsSubstring,
                    "need ranks that share memory, and this group talks through",
                    message_of<UsageError>([&] { (void)SharedPages::create(comm, 100); }));
              },
              {.engine = engine});
  }
}

TEST(SharedPages, DifferentSizesAreAnErrorOnEveryRank) {
  run_ranks(
      3,
      [](Communicator& comm) {
        EXPECT_PRED_FORMAT2(::testing::IsSubstring, "rank 0 asks for 100 bytes and rank 2 for 200",
                            message_of<CommError>([&] {
                              (void)SharedPages::create(comm, comm.rank() == 2 ? 200 : 100);
                            }));
        EXPECT_EQ(SharedPages::create(comm, 100)->bytes(), 100U) << "the group goes on";
      },
      kThroughPages);
}

TEST(SharedPages, MoreThanThereIsIsAnErrorOnEveryRankAndTakesNothing) {
  for (const std::size_t bytes : {std::size_t{1} << 50, SIZE_MAX}) {
    run_ranks(
        2,
        [bytes](Communicator& comm) {
          EXPECT_PRED_FORMAT2(
              ::testing::IsSubstring, "SharedPages: rank 0 has no memory",
              message_of<CommError>([&] { (void)SharedPages::create(comm, bytes); }));
          EXPECT_EQ(SharedPages::create(comm, 100)->bytes(), 100U) << "the group goes on";
        },
        kThroughPages);
  }
}

// Prints by how much the process's share of memory grew when it wrote and read 64 MiB of pages.
RANK_MAIN(pages_proportional_size) {
  const auto comm = rendezvous(rendezvous_options_from_env());
  const auto before = testing::proportional_set_size();
  const auto pages = SharedPages::create(*comm, 64 * testing::kMiB);
  write_and_read(*comm, pages->local());
  const auto grown = testing::proportional_set_size() - before;
  comm->barrier();
  std::cout << std::fixed << grown;
  return ::testing::Test::HasFailure() ? 1 : 0;
}

TEST(SharedPages, CountOnceForAllRanksTogether) {
  double together = 0;
  for (const auto& rank : testing::run_processes(2, "pages_proportional_size")) {
    ASSERT_EQ(rank.exit_code, 0) << rank.err << rank.out;
    const double share = std::stod(rank.out);
    EXPECT_GE(share, 28 * testing::kMiB);
    EXPECT_LE(share, 40 * testing::kMiB);
    together += share;
  }
  EXPECT_GE(together, 60 * testing::kMiB);
  EXPECT_LE(together, 76 * testing::kMiB);
}

// Rank 1 is killed with pages of its own and of rank 0; rank 0's memory is whole, and free again.
RANK_MAIN(pages_of_a_dead_rank) {
  const auto comm = rendezvous(rendezvous_options_from_env());
  auto pages = SharedPages::create(*comm, testing::kMiB - 4096);
  const auto* const where = static_cast<std::byte*>(pages->local().data_ptr()) - 4096;
  pages->local().fill_(5);
  comm->barrier();
  if (comm->rank() == 1) raise(SIGKILL);
  std::cout << message_of<CommError>([&] { comm->barrier(); }) << '\n';
  std::cout << (all_are(pages->local(), 5) ? "whole\n" : "spoilt\n");
  pages.reset();
  std::cout << (comm->empty({testing::kMiB}, at::kByte).data_ptr() == where ? "free\n" : "kept\n");
  return 0;
}

TEST(SharedPages, ADeadPeerLeavesNothingBehind) {
  const auto names = [] {  // Of ours: other programs have files there too.
    std::ostringstream all;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      const std::string name = entry.path().filename().string();
      if (name.find("accelerate") != std::string::npos) all << name << ' ';
    }
    return all.str();
  };
  const auto before = names();
  const auto ranks = testing::run_processes(2, "pages_of_a_dead_rank");
  EXPECT_EQ(ranks[0].exit_code, 0) << ranks[0].err;
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "has died", ranks[0].out);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "\nwhole\nfree\n", ranks[0].out);
  EXPECT_EQ(names(), before);
}

}  // namespace
}  // namespace accelerate
