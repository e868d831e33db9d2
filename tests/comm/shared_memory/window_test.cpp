// One-sided reads: what is read is exactly what was asked for, or an error.
#include "accelerate/comm/shared_memory/window.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>

#include <iostream>
#include <latch>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/comm/rendezvous.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::Engine;
using testing::kind_and_message_of;
using testing::message_of;
using testing::run_ranks;

constexpr testing::RanksOptions kThroughWindows{.timeout = 20s, .engine = Engine::shared_memory};

TEST(SharedWindow, IsReadByAnyRankAsOfAnEpochWhileItsOwnerDoesNothing) {
  run_ranks(
      3,
      [](Communicator& comm) {
        const auto window = SharedWindow::create(comm, 300'000);
        window->open();
        window->local().fill_(10 + comm.rank());
        window->publish(1);
        if (comm.rank() == 0) std::this_thread::sleep_for(100ms);  // It is busy; nobody cares.
        for (int rank = 0; rank < 3; ++rank) {
          const auto part = torch::empty({1000}, at::kByte);
          window->read(rank, 299'000, part, 1);
          EXPECT_TRUE(part.eq(10 + rank).all().item<bool>());
          EXPECT_EQ(window->epoch(rank), 1U);
        }
        comm.barrier();
      },
      kThroughWindows);
}

TEST(SharedWindow, WaitsForAnEpochThatIsNotThereYetAndNeverHandsOutAnother) {
  run_ranks(
      2,
      [](Communicator& comm) {
        const auto window = SharedWindow::create(comm, 1 << 20);
        const auto copy = torch::empty({1 << 20}, at::kByte);
        for (std::uint32_t epoch = 1; epoch <= 50; ++epoch) {
          if (comm.rank() == 0) {
            window->open();
            window->local().fill_(static_cast<int>(epoch));
            window->publish(epoch);
          } else {
            window->read(0, 0, copy, epoch);
            EXPECT_TRUE(copy.eq(static_cast<int>(epoch)).all().item<bool>()) << epoch;
          }
          comm.barrier();
        }
      },
      kThroughWindows);
}

// The reader does not keep up, on purpose: whatever it gets without an error is of one epoch.
TEST(SharedWindow, AReadThatTheOwnerOvertakesIsAnErrorAndNeverAMixture) {
  run_ranks(
      2,
      [](Communicator& comm) {
        const auto window = SharedWindow::create(comm, 4 << 20);
        if (comm.rank() == 0) {
          for (std::uint32_t epoch = 1; epoch <= 300; ++epoch) {
            window->open();
            window->local().fill_(static_cast<int>(epoch % 251));
            window->publish(epoch);
          }
        } else {
          const auto copy = torch::empty({4 << 20}, at::kByte);
          while (window->epoch(0) < 300) {
            const std::uint32_t epoch = window->epoch(0) + 1;
            const auto text = kind_and_message_of([&] { window->read(0, 0, copy, epoch); });
            if (text == "nothing was thrown") {
              EXPECT_TRUE(copy.eq(static_cast<int>(epoch % 251)).all().item<bool>());
            } else {
              EXPECT_NE(text.find("went on from epoch"), std::string::npos) << text;
            }
          }
          EXPECT_THROW(window->read(0, 0, copy, 1), CommError) << "long over";
        }
        comm.barrier();
      },
      kThroughWindows);
}

TEST(SharedWindow, RefusesWhatIsOutsideEpochsThatFallAndGroupsWithoutSharedMemory) {
  run_ranks(
      2,
      [](Communicator& comm) {
        const auto window = SharedWindow::create(comm, 100);
        window->publish(5);
        EXPECT_THROW(window->publish(5), UsageError);
        EXPECT_THROW(window->publish(4), UsageError);
        EXPECT_THROW(window->read(2, 0, torch::empty({1}, at::kByte), 5), UsageError);
        EXPECT_THROW(window->read(0, 99, torch::empty({2}, at::kByte), 5), UsageError);
        EXPECT_THROW(window->read(0, 101, torch::empty({0}, at::kByte), 5), UsageError);
        comm.barrier();
      },
      kThroughWindows);
  run_ranks(
      2,
      [](Communicator& comm) { EXPECT_THROW((void)SharedWindow::create(comm, 100), UsageError); },
      {.engine = Engine::gloo});
}

TEST(SharedWindow, ItsMemoryIsNotUsedAgainWhileAPeerMayRead) {
  run_ranks(
      2,
      [](Communicator& comm) {
        auto window = SharedWindow::create(comm, 1 << 20);
        const auto empty_like_it = [&] { return comm.empty({(1 << 20) + 4096}, at::kByte); };
        const auto where = [](const torch::Tensor& tensor) { return tensor.const_data_ptr(); };
        const auto* const old = static_cast<const std::byte*>(where(window->local())) - 4096;
        if (comm.rank() == 0) window.reset();
        comm.barrier();
        if (comm.rank() == 0) {
          EXPECT_NE(where(empty_like_it()), old);
        } else {
          const auto byte = torch::empty({1}, at::kByte);
          window->read(0, 0, byte, 0);
          EXPECT_PRED_FORMAT2(::testing::IsSubstring, "rank 0 ended its window",
                              message_of<CommError>([&] { window->read(0, 0, byte, 1); }));
        }
        comm.barrier();
        window.reset();
        comm.barrier();
        EXPECT_EQ(where(empty_like_it()), old);
      },
      kThroughWindows);
}

TEST(SharedWindow, DifferentSizesAreAnErrorOnEveryRank) {
  run_ranks(
      3,
      [](Communicator& comm) {
        const auto text = message_of<CommError>(
            [&] { (void)SharedWindow::create(comm, comm.rank() == 1 ? 200 : 100); });
        EXPECT_NE(text.find("bytes and rank"), std::string::npos) << text;
      },
      kThroughWindows);
}

TEST(SharedWindow, AnEpochThatNeverComesIsAnErrorAtTheTimeout) {
  std::latch over(1);
  run_ranks(2,
            [&over](Communicator& comm) {
              const auto window = SharedWindow::create(comm, 100);
              if (comm.rank() == 1) return over.wait();  // It has not left.
              const auto text = message_of<CommError>(
                  [&] { window->read(1, 0, torch::empty({1}, at::kByte), 7); });
              over.count_down();
              EXPECT_NE(text.find("has not published epoch 7 within 3000 ms; its last is 0"),
                        std::string::npos)
                  << text;
            },
            {.timeout = 3s, .engine = Engine::shared_memory});
}

RANK_MAIN(window_of_a_dead_rank) {
  const auto comm = rendezvous(rendezvous_options_from_env());
  const auto window = SharedWindow::create(*comm, 100);
  if (comm->rank() == 1) raise(SIGKILL);
  std::cout << message_of<CommError>([&] { window->read(1, 0, torch::empty({1}, at::kByte), 1); });
  return 0;
}

TEST(SharedWindow, TheDeathOfTheOwnerIsAnErrorThatNamesIt) {
  const auto ranks = testing::run_processes(2, "window_of_a_dead_rank");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "rank 1, process ", ranks[0].out);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "has died", ranks[0].out);
}

}  // namespace
}  // namespace accelerate
