// A rank that is stopped at any moment of a meeting ends it at the deadline of the meeting.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <chrono>
#include <future>
#include <iostream>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/rendezvous.h"
#include "accelerate/comm/selection.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// The store as a rank sees it that is stopped before its n-th use of it, polls aside.
class StoreOfStoppedRank final : public c10d::PrefixStore {
 public:
  StoreOfStoppedRank(const StorePtr& store, int uses, std::shared_future<void> end)
      : PrefixStore("all", store), uses_left_(uses), end_(std::move(end)) {}

  using PrefixStore::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    use();
    PrefixStore::set(key, value);
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    use();
    return PrefixStore::get(key);
  }

 private:
  void use() {
    if (uses_left_-- == 0) end_.wait();
  }
  std::atomic<int> uses_left_;
  std::shared_future<void> end_;
};

struct Meeting {
  std::string outcome;
  std::chrono::milliseconds lasted;
};

// How the meeting ends for rank 0 when rank 1 is stopped before its n-th use of the store.
Meeting meet_one_that_stops(int uses, const std::string& wish, std::chrono::milliseconds limit) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::promise<void> over;
  std::thread stopped([&, end = over.get_future().share()] {
    const auto seen = c10::make_intrusive<StoreOfStoppedRank>(store, uses, end);
    try {
      (void)detail::connect_on_cpu(seen, {1, 2, limit, "127.0.0.1", wish});
    } catch (const Error&) {
      // Its peer has given up by then.
    }
  });
  const auto start = std::chrono::steady_clock::now();
  Meeting meeting;
  meeting.outcome = testing::kind_and_message_of([&] {
    const auto seen = c10::make_intrusive<c10d::PrefixStore>("all", store);
    (void)detail::connect_on_cpu(seen, {0, 2, limit, "127.0.0.1", wish});
  });
  meeting.lasted = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  over.set_value();
  stopped.join();
  return meeting;
}

// Gloo by itself waits five times the limit for a peer that has joined and does not connect.
TEST(MeetingDeadline, HoldsWheneverARankIsStopped) {
  constexpr auto kLimit = 1s;
  for (const std::string wish : {"gloo", "shared_memory"}) {
    std::vector<std::future<Meeting>> meetings;
    for (int uses = 0; uses < 16; ++uses) {
      meetings.push_back(std::async(std::launch::async, meet_one_that_stops, uses, wish, kLimit));
    }
    int late = 0;
    for (std::size_t uses = 0; uses < meetings.size(); ++uses) {
      const Meeting meeting = meetings[uses].get();
      SCOPED_TRACE(wish + ", stopped before use " + std::to_string(uses) + ": " + meeting.outcome);
      EXPECT_LT(meeting.lasted, 4 * kLimit);
      if (meeting.outcome == "nothing was thrown") continue;
      ++late;
      EXPECT_NE(meeting.outcome.find("within the timeout of 1 s"), std::string::npos);
      EXPECT_TRUE(meeting.outcome.starts_with("CommError: "));
    }
    EXPECT_GT(late, 4) << "stops that mattered";
  }
}

RANK_MAIN(wish_for_gloo) {
  std::cout << testing::kind_and_message_of(
      [] { (void)rendezvous(rendezvous_options_from_env()); });
  return 0;
}

TEST(Rendezvous, ANetworkInterfaceThatIsNotThereIsNamedWithThoseThatAre) {
  const auto ranks = testing::run_processes(
      2, "wish_for_gloo", {.env = {{"ACCELERATE_COMM", "gloo"}, {"GLOO_SOCKET_IFNAME", "none0"}}});
  for (const auto& rank : ranks) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "ConfigError: GLOO_SOCKET_IFNAME is 'none0'",
                        rank.out);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "; it has ", rank.out);
    EXPECT_EQ(rank.err, "");
  }
}

TEST(Rendezvous, ALoopbackThatIsDownIsSaidAtOnce) {
  if (testing::run_program({"unshare", "-n", "true"}).exit_code != 0) {
    GTEST_SKIP() << "no right to make a network namespace";
  }
  const auto here = [](int, auto&) { return std::vector<std::string>{"unshare", "-n"}; };
  const auto rank = testing::run_processes(
      1, "wish_for_gloo", {.env = {{"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}}, .place = here});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "whose interface is down", rank.front().out);
}

}  // namespace
}  // namespace accelerate
