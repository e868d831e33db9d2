// The store of the launcher and its client; tests/launch/machines/store_live.py compares it with
// c10d's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <optional>
#include <thread>

#include "accelerate/base/tcp.h"
#include "accelerate/launch/machines/store_client.h"
#include "accelerate/launch/machines/store_host.h"
#include "accelerate/launch/machines/store_server.h"
#include "accelerate/launch/machines/store_wire.h"
#include "tests/launch/support.h"

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;

// A store in a thread, and clients of it.
class Store : public ::testing::Test {
 protected:
  void SetUp() override {
    Listening listener = listen_on(*resolve_host("127.0.0.1", 0).addresses);
    port_ = listener.port;
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    owner_ = Descriptor(ends[1]);
    server_ =
        std::thread([socket = std::move(listener.socket), end = Descriptor(ends[0])]() mutable {
          StoreServer(std::move(socket), {{"/first", "1"}}).run(end.get());
        });
  }
  void TearDown() override {
    owner_.close();
    server_.join();
  }

  [[nodiscard]] Descriptor connection() const {
    int error = 0;
    Descriptor made = connect_within(*resolve_host("127.0.0.1", port_).addresses, 1s, error);
    EXPECT_EQ(error, 0);
    return made;
  }
  [[nodiscard]] StoreClient client() const { return {connection(), 5s}; }

  // Sends bytes that no client would, and returns whether the store ends the connection.
  [[nodiscard]] bool drops(const std::string& bytes, bool greets = true) const {
    const Descriptor raw = connection();
    std::string all;
    if (greets) {
      all.push_back(0);
      append_number(all, kStoreMagic);
    }
    all += bytes;
    EXPECT_EQ(::send(raw.get(), all.data(), all.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(all.size()));
    return testing::eventually(
        [&] {
          char byte = 0;
          const ssize_t got = recv(raw.get(), &byte, 1, 0);
          return got == 0 || (got < 0 && errno != EAGAIN);
        },
        2s);
  }

  [[nodiscard]] static std::string query(StoreQuery kind, std::uint64_t length) {
    std::string bytes(1, static_cast<char>(kind));
    append_number(bytes, length);
    return bytes;
  }

  int port_ = 0;
  Descriptor owner_;
  std::thread server_;
};

TEST_F(Store, KeepsWhatClientsSet) {
  auto one = client(), other = client();
  EXPECT_EQ(one.get("first"), "1");
  one.set("key", std::string("a\0b", 3));
  EXPECT_TRUE(other.wait({"key"}, 1s));
  EXPECT_EQ(other.get("key"), std::string("a\0b", 3));
  EXPECT_EQ(one.set_if_missing("key", "c"), std::string("a\0b", 3));
  EXPECT_EQ(one.set_if_missing("new", "c"), "c");
  EXPECT_EQ(one.add("sum", 5), 5);
  EXPECT_EQ(other.add("sum", -7), -2);
  EXPECT_TRUE(one.has("sum"));
  EXPECT_FALSE(one.has("none"));
}

TEST_F(Store, AnswersAWaitWhenTheLastKeyComes) {
  auto one = client(), other = client();
  one.begin_wait("late");
  EXPECT_FALSE(one.wait_is_over());
  other.set("late", "x");
  EXPECT_TRUE(testing::eventually([&] { return one.wait_is_over(); }));
  EXPECT_EQ(one.get("late"), "x");
}

TEST_F(Store, TakesAWaitBackAtItsLimit) {
  auto one = client(), other = client();
  EXPECT_FALSE(one.wait({"never", "first"}, 20ms));
  other.set("never", "x");
  EXPECT_EQ(one.get("first"), "1") << "no late answer may stand between";
  EXPECT_TRUE(one.wait({"never", "first"}, 1s));
}

// A value of 8 MiB does not fit into the buffers of the sockets, so the answer goes out in parts.
TEST_F(Store, CarriesTheLargestValue) {
  auto one = client();
  const std::string large(StoreLimits::kValueBytes, 'x');
  one.set("large", large);
  EXPECT_EQ(one.get("large"), large);
  EXPECT_EQ(one.get("first"), "1");
}

TEST_F(Store, TellsTheWillOfAClientThatIsLostAndNoOther) {
  std::string will;
  for (const char* text : {"/end", "died", "/lost", "he"}) append_text(will, text);
  auto watcher = client();
  watcher.begin_wait("end");
  {
    auto leaves = client();
    leaves.set("accelerate/will", will);
    leaves.set("accelerate/will", "");
  }
  {
    auto says_nothing = client();
  }
  {
    auto damaged = client();
    damaged.set("accelerate/will", "not a list of keys and values");
  }
  EXPECT_FALSE(watcher.wait_is_over());
  watcher.stop_waiting();
  watcher.set("lost", "before");
  watcher.begin_wait("end");
  {
    auto dies = client();
    dies.set("accelerate/will", will);
    EXPECT_FALSE(dies.has("accelerate/will")) << "a will is nobody else's business";
  }
  EXPECT_TRUE(testing::eventually([&] { return watcher.wait_is_over(); }));
  EXPECT_EQ(watcher.get("end"), "died");
  EXPECT_EQ(watcher.get("lost"), "before") << "what is there stays";
}

TEST_F(Store, DropsWhoDoesNotSpeakItsLanguage) {
  EXPECT_TRUE(drops("GET / HTTP/1.1\r\n\r\n", false));
  EXPECT_TRUE(drops(std::string("\x00garb", 5), false)) << "another magic number";
  EXPECT_TRUE(drops(query(StoreQuery::get, 4) + "/key", false)) << "a query before the greeting";
  EXPECT_TRUE(drops("\xff"));
  EXPECT_TRUE(drops(query(StoreQuery::get, 4) + "/key")) << "a key that is not there";
  EXPECT_TRUE(drops(query(StoreQuery::set, StoreLimits::kKeyBytes + 1)));
  EXPECT_TRUE(drops(query(StoreQuery::set, ~std::uint64_t{0})));
  EXPECT_TRUE(drops(query(StoreQuery::wait, StoreLimits::kKeys + 1)));
  std::string value = query(StoreQuery::set, 1) + "k";
  append_number<std::uint64_t>(value, StoreLimits::kValueBytes + 1);
  EXPECT_TRUE(drops(value));
  std::string sum = query(StoreQuery::add, 6) + "/first";
  append_number<std::int64_t>(sum, std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(drops(sum)) << "a sum beyond 64 bits";
  EXPECT_EQ(client().get("first"), "1") << "the others are served";
}

TEST_F(Store, WaitsForTheRestOfAQuery) {
  const Descriptor slow = connection();
  std::string bytes(1, 0);
  append_number(bytes, kStoreMagic);
  bytes.push_back(static_cast<char>(StoreQuery::ping));
  append_number<std::uint32_t>(bytes, 77);
  for (const char byte : bytes) {
    EXPECT_EQ(::send(slow.get(), &byte, 1, MSG_NOSIGNAL), 1);
    std::this_thread::sleep_for(1ms);
    EXPECT_EQ(client().get("first"), "1") << "nobody waits for a slow client";
  }
  std::uint32_t answer = 0;
  EXPECT_TRUE(testing::eventually([&] { return recv(slow.get(), &answer, 4, 0) == 4; }));
  EXPECT_EQ(answer, 77U);
}

TEST_F(Store, AnswersManyQuestionsInOneRoundTrip) {
  auto one = client();
  std::vector<std::string> keys;
  for (int i = 0; i < 2500; ++i) {
    keys.push_back("many/" + std::to_string(i));
    if (i % 2 == 0) one.set(keys.back(), std::to_string(i));
  }
  const auto there = one.has_each(keys);
  std::vector<std::string> even;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(there[i], i % 2 == 0) << keys[i];
    if (i % 2 == 0) even.push_back(keys[i]);
  }
  const auto values = one.get_each(even);
  ASSERT_EQ(values.size(), even.size());
  for (std::size_t i = 0; i < even.size(); ++i) EXPECT_EQ("many/" + values[i], even[i]);
  EXPECT_TRUE(one.has_each({}).empty());
  EXPECT_EQ(one.get("first"), "1") << "nothing is left unread";
}

// Clients beyond the limit of open files wait, and come in when another one leaves.
TEST(StoreLimits, LetClientsWaitForADescriptor) {
  Listening listener = listen_on(*resolve_host("127.0.0.1", 0).addresses);
  const auto address = resolve_host("127.0.0.1", listener.port);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = few.rlim_max = 12;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t server = fork();
  if (server == 0) {
    close(ends[1]);
    dup2(ends[0], 0);
    dup2(listener.socket.get(), 1);
    close_range(3, ~0U, 0);
    setrlimit(RLIMIT_NOFILE, &few);
    StoreServer(Descriptor(1), {{"/first", "1"}}).run(0);
    _exit(0);
  }
  close(ends[0]);
  listener.socket.close();
  int error = 0;
  std::vector<StoreClient> clients;
  while (clients.size() < 12) {
    try {
      clients.emplace_back(connect_within(*address.addresses, 1s, error), 300ms);
    } catch (const StoreError&) {
      break;
    }
  }
  EXPECT_GE(clients.size(), 6U);
  EXPECT_LT(clients.size(), 12U);
  EXPECT_EQ(clients.front().get("first"), "1");
  clients.pop_back();
  EXPECT_EQ(StoreClient(connect_within(*address.addresses, 1s, error), 5s).get("first"), "1");
  clients.clear();
  close(ends[1]);
  EXPECT_EQ(waitpid(server, nullptr, 0), server);
}

TEST_F(Store, SaysWhatIsWrongWithWhatAnswers) {
  Listening silent = listen_on(*resolve_host("127.0.0.1", 0).addresses);
  int error = 0;
  const auto address = resolve_host("127.0.0.1", silent.port);
  try {
    StoreClient(connect_within(*address.addresses, 1s, error), 100ms);
    FAIL() << "nobody answered";
  } catch (const StoreError& fault) {
    EXPECT_STREQ(fault.what(), "it gave no answer for 0 s");
  }
}

TEST(StoreHost, EndsWithItsOwnerAndLetsClientsLeaveFirst) {
  Listening listener = listen_on(*resolve_host("127.0.0.1", 0).addresses);
  const int port = listener.port;
  std::optional<StoreHost> host;
  host.emplace(std::move(listener.socket), std::map<std::string, std::string>{{"/a", "b"}});
  int error = 0;
  const auto address = resolve_host("127.0.0.1", port);
  std::optional<StoreClient> client;
  client.emplace(connect_within(*address.addresses, 1s, error), 5s);
  EXPECT_EQ(client->get("a"), "b");
  std::thread leaver([&] {
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(client->get("a"), "b") << "it still serves";
    client.reset();
  });
  host.reset();
  leaver.join();
  EXPECT_FALSE(connect_within(*address.addresses, 1s, error).valid());
}

}  // namespace
}  // namespace accelerate::detail
