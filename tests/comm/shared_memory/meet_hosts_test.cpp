// Meetings that go wrong: ranks that do not come, cannot share, die, or are not ranks at all.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <future>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/shared_memory/local_socket.h"
#include "accelerate/comm/shared_memory/peers.h"
#include "tests/comm/shared_memory/meetings.h"

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): "20s" reads well

const std::string kCards = "accelerate/hosts/card/";
const std::string kVerdicts = "accelerate/hosts/verdict/";

using Store = c10::intrusive_ptr<c10d::HashStore>;

Store make_store() {
  return c10::make_intrusive<c10d::HashStore>();
}

std::string error_of(const Store& store, int rank, int size, std::chrono::milliseconds timeout) {
  try {
    (void)meet_hosts(store, rank, size, timeout);
  } catch (const CommError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// The lines of a rank's card, once it is there.
std::vector<std::string> card_of(const Store& store, int rank) {
  while (!store->check({kCards + std::to_string(rank)})) std::this_thread::sleep_for(1ms);
  const auto bytes = store->get(kCards + std::to_string(rank));
  return split(std::string(bytes.begin(), bytes.end()), '\n');
}

void set(const Store& store, const std::string& key, const std::vector<std::string>& lines) {
  const auto text = join(lines, "\n");
  store->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

// How a rank introduces itself after the token: rank and process, its namespace, the extent of its
// nonce, whether a descriptor for its process comes with it, how many ranks there are.
std::string entry_of(std::int32_t rank) {
  std::string bytes(56, '\0');
  const std::uint64_t process_space = process_namespace();
  const std::int32_t pid = getpid();
  std::memcpy(bytes.data(), &rank, sizeof rank);
  std::memcpy(bytes.data() + 4, &pid, sizeof pid);
  std::memcpy(bytes.data() + 8, &process_space, sizeof process_space);
  const SharedExtent nonce{0, 256 << 10, 0, 32};
  std::memcpy(bytes.data() + 16, &nonce, sizeof nonce);
  return bytes;
}

TEST(MeetHosts, NamesTheRanksThatNeverCame) {
  const auto store = make_store();
  auto other = std::async(std::launch::async, [&] { return error_of(store, 2, 4, 3s); });
  for (const auto& message : {error_of(store, 0, 4, 3s), other.get()}) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "ranks 1, 3 had not", message);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "within the timeout of 3 s", message);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "Were all ranks started", message);
  }
}

// Ranks from 1 on are played by the test: it says what their cards and verdicts say.
class MeetHostsWithAnActor : public ::testing::Test {
 protected:
  // Begins the part of rank 0, and learns from its card on what machine this is.
  void begin(std::chrono::milliseconds timeout, int size = 2) {
    rank_0_ = std::async(std::launch::async, [this, timeout, size]() -> std::string {
      try {
        const auto hosts = meet_hosts(store_, 0, size, timeout);
        return hosts.peers ? "met" : hosts.why_not;
      } catch (const CommError& error) {
        return std::string("CommError: ") + error.what();
      }
    });
    card_ = card_of(store_, 0);
  }

  // A card like rank 0's, with a socket of our own.
  std::vector<std::string> own_card() {
    auto card = card_;
    card[2] = random_name();
    return card;
  }
  void show(const std::vector<std::string>& card, int rank = 1) {
    set(store_, kCards + std::to_string(rank), card);
  }
  void judge(const std::vector<std::string>& verdict, int rank = 1) {
    set(store_, kVerdicts + std::to_string(rank), verdict);
  }
  // A connection over which `rank` has introduced itself with `memory`.
  Descriptor introduce(int rank, int memory) {
    const Deadline deadline(5s);
    auto connection = connect_locally(card_[2], deadline);
    EXPECT_TRUE(send_message(connection.get(), card_[3] + entry_of(rank), {memory}, deadline));
    return connection;
  }

  Store store_ = make_store();
  std::future<std::string> rank_0_;
  std::vector<std::string> card_;
};

TEST_F(MeetHostsWithAnActor, DoesWithoutWhenARankCannotShare) {
  begin(20s);
  auto card = own_card();
  card[5] = "no memory";
  show(card);
  EXPECT_EQ(rank_0_.get(), "rank 1: no memory");
}

TEST_F(MeetHostsWithAnActor, DoesWithoutWhenARankWasBuiltFromAnotherVersion) {
  begin(20s);
  auto card = own_card();
  card[0] = "9";
  show(card);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "rank 1 speaks version 9", rank_0_.get());
}

TEST_F(MeetHostsWithAnActor, GivesTheReasonOfTheRankThatKnowsIt) {
  begin(20s);
  const auto card = own_card();
  const auto listener = listen_locally(card[2], 4);  // reached, but never introduced
  show(card);
  judge({"0", "something broke", ""});
  EXPECT_EQ(rank_0_.get(), "rank 1: something broke");
}

TEST_F(MeetHostsWithAnActor, NamesARankThatListensAndThenSaysNothing) {
  begin(3s);
  const auto card = own_card();
  const auto listener = listen_locally(card[2], 4);
  show(card);
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring,
      "CommError: rank 0 of 2 finds out who shares its host: rank 1 had not introduced",
      rank_0_.get());
}

TEST_F(MeetHostsWithAnActor, NamesARankThatDiedAfterItsCard) {
  begin(3s);
  show(own_card());
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "rank 1 had not said", rank_0_.get());
}

TEST_F(MeetHostsWithAnActor, ARankOfAnotherMachineIsAnotherHost) {
  begin(20s);
  auto card = own_card();
  card[1] = "another boot";
  const auto listener = listen_locally(card[2], 4);
  show(card);
  judge({"1", "", ""});
  EXPECT_EQ(rank_0_.get(), "met");
}

TEST_F(MeetHostsWithAnActor, DoesWithoutWhenARankLeavesInTheMiddle) {
  begin(20s, 3);
  const auto card_1 = own_card();
  const auto card_2 = own_card();
  const auto listens_1 = listen_locally(card_1[2], 4);
  const auto listens_2 = listen_locally(card_2[2], 4);
  show(card_1, 1);
  show(card_2, 2);
  introduce(1, 0).close();
  judge({"0", "rank 0 left", "another"}, 2);
  judge({"0", "it had to go", ""}, 1);
  EXPECT_EQ(rank_0_.get(), "rank 1: it had to go");
}

TEST_F(MeetHostsWithAnActor, RefusesMemoryThatCouldBeMadeSmaller) {
  begin(20s);
  const auto card = own_card();
  const auto listener = listen_locally(card[2], 4);
  show(card);
  const Descriptor memory(memfd_create("unsealed", MFD_CLOEXEC));
  const auto connection = introduce(1, memory.get());
  judge({"0", "", ""});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "sealed against shrinking", rank_0_.get());
}

TEST_F(MeetHostsWithAnActor, RefusesMemoryInWhichNobodyWroteTheNonce) {
  begin(20s);
  const auto card = own_card();
  const auto listener = listen_locally(card[2], 4);
  show(card);
  const auto connection = introduce(1, SharedArena::create()->fd());
  judge({"0", "", ""});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot find the nonce of rank 1 in that rank's",
                      rank_0_.get());
}

TEST_F(MeetHostsWithAnActor, RefusesACardThatNoRankWrites) {
  begin(20s);
  auto card = own_card();
  card[2] = std::string(200, 'x');
  show(card);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "CommError: the job's store holds an invalid name for rank 1", rank_0_.get());
}

TEST_F(MeetHostsWithAnActor, RefusesAVerdictThatFitsNoHost) {
  for (const std::string leader : {"7", "-1", "0", "x", "99999999999999999999"}) {
    store_ = make_store();
    begin(20s);
    auto card = own_card();
    card[1] = "another boot";
    show(card);
    judge({leader, "", ""});
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "CommError: the job's store ", rank_0_.get());
  }
}

// Strangers that connect to rank 0 before rank 1 comes.
class MeetHostsAmongStrangers : public ::testing::Test {
 protected:
  // Whether ranks 0 and 1 met although `intrude` was done to rank 0's socket and token.
  bool meets_in_spite_of(
      const std::function<void(const std::string&, const std::string&)>& intrude) {
    const auto store = make_store();
    const auto meet = [&store](int rank) {
      return std::async(std::launch::async, [&store, rank] {
        const auto hosts = meet_hosts(store, rank, 2, 20s);
        return hosts.peers && hosts.peers->size() == 2;
      });
    };
    auto first = meet(0);
    const auto card = card_of(store, 0);
    intrude(card[2], card[3]);
    auto second = meet(1);
    const bool both = first.get();
    return second.get() && both;
  }
  const Deadline deadline_{5s};
};

TEST_F(MeetHostsAmongStrangers, WhoSaysNothingIsNotWaitedFor) {
  std::vector<Descriptor> silent;
  EXPECT_TRUE(meets_in_spite_of([&](const auto& socket, const auto&) {
    for (int i = 0; i < 12; ++i) silent.push_back(connect_locally(socket, deadline_));
  }));
}

TEST_F(MeetHostsAmongStrangers, WhoTellsNonsenseIsTurnedAway) {
  const auto entry = entry_of(1);
  for (const std::string what :
       {"nothing", "a wrong token", "almost", "no entry", "half an entry", "two", "rank 0"}) {
    std::vector<Descriptor> liars;
    EXPECT_TRUE(meets_in_spite_of([&](const auto& socket, const auto& token) {
      std::string message = std::string(32, 'f') + entry;
      if (what == "almost") message = token.substr(1) + entry;
      if (what == "no entry") message = token;
      if (what == "half an entry") message = token + entry.substr(0, 20);
      if (what == "rank 0") message = token + entry_of(0);
      if (what == "two") message = token + entry + entry;
      liars.push_back(connect_locally(socket, deadline_));
      EXPECT_TRUE(
          send_message(liars.back().get(), what == "nothing" ? " " : message, {}, deadline_));
    })) << what;
  }
}

TEST_F(MeetHostsAmongStrangers, AnotherUserIsTurnedAwayWhateverItKnows) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  EXPECT_TRUE(meets_in_spite_of([&](const auto& socket, const auto& token) {
    const pid_t child = fork();
    if (child == 0) {
      if (setresuid(65534, 65534, 65534) != 0) _exit(1);
      const auto connection = connect_locally(socket, deadline_);
      _exit(send_message(connection.get(), token + entry_of(1), {0}, deadline_) ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }));
}

TEST_F(MeetHostsAmongStrangers, DescriptorsOfAStrangerAreClosed) {
  const auto before = testing::open_descriptors();
  EXPECT_TRUE(meets_in_spite_of([&](const auto& socket, const auto&) {
    const auto connection = connect_locally(socket, deadline_);
    EXPECT_TRUE(send_message(connection.get(), "hello", {0, 0, 0, 0}, deadline_));
  }));
  EXPECT_EQ(testing::open_descriptors(), before);
}

}  // namespace
}  // namespace accelerate::detail
