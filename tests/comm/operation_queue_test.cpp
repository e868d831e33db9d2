#include "accelerate/comm/operation_queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/base/process_identity.h"

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;

std::string failure_of(Work work) {
  try {
    work.wait();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

class Queue : public ::testing::Test {
 protected:
  // An operation that runs until let_go().
  Work hold() {
    auto work = queue_.submit([this] {
      begun_.set_value();
      gate_.get_future().wait();
    });
    begun_.get_future().wait();
    return work;
  }
  void let_go() { gate_.set_value(); }

  std::vector<std::string> told_;
  std::promise<void> begun_, gate_;
  OperationQueue queue_{[this](const std::exception& error) { told_.emplace_back(error.what()); }};
};

TEST_F(Queue, RunsOperationsInTheOrderOfSubmissionOnOneThread) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  std::vector<Work> pending;
  for (int i = 0; i < 50; ++i) {
    pending.push_back(queue_.submit([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    }));
  }
  for (auto work = pending.rbegin(); work != pending.rend(); ++work) work->wait();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(std::count(threads.begin(), threads.end(), threads[0]), 50);
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST_F(Queue, SaysWhetherAnOperationIsOver) {
  auto first = hold();
  auto second = queue_.submit([] {});
  EXPECT_FALSE(first.is_completed());
  EXPECT_FALSE(second.is_completed());
  EXPECT_FALSE(queue_.idle_within(1ms));
  let_go();
  second.wait();
  EXPECT_TRUE(first.is_completed());
  EXPECT_TRUE(queue_.idle_within(10s));
}

TEST_F(Queue, FailsWhatComesBehindAFailureWithTheSameError) {
  bool ran = false;
  auto first = queue_.submit([] { throw CommError("rank 7 is lost"); });
  auto second = queue_.submit([&] { ran = true; });
  EXPECT_EQ(failure_of(second), "rank 7 is lost");
  EXPECT_EQ(failure_of(first), "rank 7 is lost");
  EXPECT_EQ(failure_of(queue_.submit([&] { ran = true; })), "rank 7 is lost");
  EXPECT_FALSE(ran);
  EXPECT_EQ(told_, std::vector<std::string>{"rank 7 is lost"});
}

TEST_F(Queue, CanBeToldToFail) {
  auto running = hold();
  auto waiting = queue_.submit([] {});
  queue_.fail(std::make_exception_ptr(CommError("aborted")));
  EXPECT_EQ(failure_of(waiting), "aborted");
  EXPECT_FALSE(running.is_completed()) << "it ends by itself";
  let_go();
  EXPECT_EQ(failure_of(running), "none") << "what was done is done";
}

TEST_F(Queue, TakesOperationsAgainOnceRecovered) {
  EXPECT_EQ(failure_of(queue_.submit([] { throw CommError("lost"); })), "lost");
  ASSERT_TRUE(queue_.idle_within(10s));
  queue_.recover();
  EXPECT_EQ(failure_of(queue_.submit([] {})), "none");
}

TEST_F(Queue, HasTheIdentityOfItsUserAndTakesNoSignals) {
  const ScopedProcessIdentity scope({.rank = 5, .world_size = 8});
  int rank = 0;
  sigset_t blocked;
  queue_
      .submit([&] {
        rank = process_identity().rank;
        pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      })
      .wait();
  EXPECT_EQ(rank, 5);
  EXPECT_TRUE(sigismember(&blocked, SIGTERM));
}

TEST(OperationQueue, BelongsToTheProcessThatMadeIt) {
  auto queue = std::make_unique<OperationQueue>([](const std::exception&) {});
  queue->submit([] {}).wait();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool refused = false;
    try {
      (void)queue->submit([] {});
    } catch (const UsageError&) {
      refused = queue->idle_within(0ms);
    }
    queue.reset();
    _exit(refused ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  queue->submit([] {}).wait();
}

TEST(OperationQueue, FailsWhatWasNotBegunWhenItEnds) {
  std::promise<void> begun, gate;
  Work running, waiting;
  std::thread opener;
  {
    OperationQueue queue([](const std::exception&) {});
    running = queue.submit([&] {
      begun.set_value();
      gate.get_future().wait();
    });
    begun.get_future().wait();
    waiting = queue.submit([] {});
    opener = std::thread([&] {
      for (int i = 0; i < 20'000 && !waiting.is_completed(); ++i) std::this_thread::sleep_for(1ms);
      gate.set_value();
    });
  }
  opener.join();
  EXPECT_NE(failure_of(waiting).find("left before"), std::string::npos);
}

}  // namespace
}  // namespace accelerate::detail
