#include "accelerate/comm/diagnosis.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "accelerate/base/error.h"
#include "tests/support/errors.h"

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;

TEST(GroupDiagnosis, TheHostOfTheStoreStaysUntilAllHaveFoundOut) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  auto host =
      std::async(std::launch::async, [&] { GroupDiagnosis(store, 0, 3, 60s).let_all_find_out(); });
  GroupDiagnosis(store, 2, 3, 60s).let_all_find_out();
  EXPECT_EQ(host.wait_for(100ms), std::future_status::timeout);
  GroupDiagnosis(store, 1, 3, 60s).let_all_find_out();
  host.get();
}

TEST(GroupDiagnosis, TheHostOfTheStoreDoesNotStayForARankThatIsGone) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  GroupDiagnosis(store, 0, 2, 50ms).let_all_find_out();
  EXPECT_FALSE(store->check({"accelerate/found out/1"}));
}

// What rank 0 says when a call fails of `reason`, where rank 1 has joined by `card`.
std::string said_of(const std::string& reason, const std::string& card) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->set("accelerate/joined/1", std::vector<std::uint8_t>(card.begin(), card.end()));
  GroupDiagnosis diagnosis(store, 0, 2, 1s);
  diagnosis.wait_for_everyone_to_join(Deadline(5s));
  return testing::message_of<CommError>(
      [&] { diagnosis.throw_failure("all_reduce", std::runtime_error(reason)); });
}

// A process that has ended, as it would have introduced itself.
std::string card_of_the_dead() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const std::string own = own_process_card();
  return std::to_string(child) + own.substr(own.find('\n'));
}

TEST(GroupDiagnosis, SuspectsPeersOnlyWhereAConnectionToOneIsClosed) {
  EXPECT_EQ(said_of("Invalid scalar type", own_process_card()),
            "all_reduce failed on rank 0 of 2: Invalid scalar type.");
  EXPECT_EQ(said_of("Connection closed by peer", own_process_card()),
            "all_reduce failed on rank 0 of 2: Connection closed by peer. The connection to a peer "
            "is closed, and no peer has said why: look for the first rank that ended. "
            "[accelerate.error/rank-lost]");
}

TEST(GroupDiagnosis, NamesTheProcessThatHasDied) {
  const auto card = card_of_the_dead();
  EXPECT_EQ(said_of("Connection closed by peer", card),
            "all_reduce failed on rank 0 of 2: Connection closed by peer. Rank 1 is process " +
                card.substr(0, card.find('\n')) + ", which has died. [accelerate.error/rank-lost]");
}

TEST(GroupDiagnosis, ShowsInWhatElseAPeerWaits) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  GroupDiagnosis host(store, 0, 2, 1s), peer(store, 1, 2, 1s);
  auto joined =
      std::async(std::launch::async, [&] { peer.wait_for_everyone_to_join(Deadline(5s)); });
  host.wait_for_everyone_to_join(Deadline(5s));
  joined.get();
  const auto said = [&](const CallInGroup& theirs) {
    peer.say_waiting(theirs);
    return testing::message_of<CommError>([&] { host.throw_timeout(CallInGroup{"barrier", 4}); });
  };
  const std::string name = "ank 1 (process " + std::to_string(getpid()) + ")";
  EXPECT_NE(said({"gather", 3}).find("waits for r" + name + ", which is not known to be in it."),
            std::string::npos);
  EXPECT_NE(said({"gather", 4}).find(" R" + name + " waits in gather instead."), std::string::npos);
  EXPECT_EQ(said({"barrier", 4}).find(name), std::string::npos);
}

// Long before the timeout.
TEST(GroupDiagnosis, SeesThatTheNextRankWaitsInACallOfAnotherSize) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  GroupDiagnosis mine(store, 1, 2, 1h), next(store, 0, 2, 1h);
  const CallInGroup call{"all_reduce of Float[4]", 7, -1, 16};
  const auto look = [&] { mine.throw_if_next_rank_waits_elsewhere(call); };
  look();
  for (const auto& theirs : {CallInGroup{"all_reduce of Float[2, 2]", 7, -1, 16},
                             CallInGroup{"all_reduce of Float[2]", 6, -1, 8}}) {
    next.say_waiting(theirs);
    look();
  }
  next.say_waiting({"all_reduce of Float[2]", 7, -1, 8});
  EXPECT_EQ(testing::message_of<CommError>(look),
            "all_reduce of Float[4] on rank 1 of 2 cannot end: rank 0 waits in all_reduce of "
            "Float[2] instead. Do all ranks call the same operations in the same order? "
            "[accelerate.error/different-collectives]");
}

// A stranger's words must not write to a terminal.
TEST(GroupDiagnosis, ShowsReasonsOfPeersAsPlainText) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  GroupDiagnosis(store, 1, 2, 1s).announce_failure("a\x1b[2Jb" + std::string(5000, 'x'));
  const auto text = testing::message_of<CommError>(
      [&] { GroupDiagnosis(store, 0, 2, 1s).throw_failure("barrier", std::runtime_error("no")); });
  EXPECT_NE(text.find("Rank 1 gave up: a?[2Jbxx"), std::string::npos);
  EXPECT_TRUE(text.ends_with(". [accelerate.error/rank-lost]"));
  EXPECT_LT(text.size(), 4500U);
}

}  // namespace
}  // namespace accelerate::detail
