// Values in the store of a job are taken only from those who know its token.
#include "accelerate/comm/sealed_store.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_communicator.h"
#include "tests/support/errors.h"

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;
using testing::message_of;

constexpr ChecksumKey kToken = {1, 2, 3};

std::vector<std::uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

struct SealedStoreOf : ::testing::Test {
  c10::intrusive_ptr<c10d::Store> open = c10::make_intrusive<c10d::HashStore>();
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<SealedStore>(open, kToken);
};

TEST_F(SealedStoreOf, AJobGivesItsRanksWhatTheySet) {
  store->set("a", bytes("one"));
  store->set("empty", bytes(""));
  EXPECT_EQ(store->get("a"), bytes("one"));
  EXPECT_EQ(store->get("empty"), bytes(""));
  EXPECT_TRUE(store->check({"a", "empty"}));
  EXPECT_FALSE(store->check({"a", "b"}));
  store->multiSet({"b", "c"}, {bytes("two"), bytes("three")});
  EXPECT_EQ(store->multiGet({"c", "a"}), (std::vector{bytes("three"), bytes("one")}));
  EXPECT_EQ(store->clone()->get("b"), bytes("two"));
  EXPECT_TRUE(store->deleteKey("a"));
  EXPECT_FALSE(store->check({"a"}));
}

TEST_F(SealedStoreOf, AJobComparesAndAppendsAsOtherStoresDo) {
  EXPECT_EQ(store->compareSet("a", bytes("x"), bytes("y")), bytes("x"));
  EXPECT_FALSE(store->check({"a"}));
  EXPECT_EQ(store->compareSet("a", bytes(""), bytes("one")), bytes("one"));
  EXPECT_EQ(store->compareSet("a", bytes("zero"), bytes("two")), bytes("one"));
  EXPECT_EQ(store->compareSet("a", bytes("one"), bytes("two")), bytes("two"));
  store->append("a", bytes(" more"));
  EXPECT_EQ(store->get("a"), bytes("two more"));
}

TEST_F(SealedStoreOf, AJobLosesNoAddition) {
  const auto add = [this] {
    for (int i = 0; i < 200; ++i) store->add("sum", 1);
  };
  auto other = std::async(std::launch::async, add);
  add();
  other.get();
  EXPECT_EQ(store->add("sum", -1), 399);
}

TEST_F(SealedStoreOf, AJobRefusesWhatItsRanksDidNotWrite) {
  store->set("a", bytes("one"));
  store->set("counted", bytes("1"));
  const auto original = open->get("a");
  const auto stranger = c10::make_intrusive<SealedStore>(open, ChecksumKey{});
  const auto refusal = [this](const std::string& key) {
    return message_of<CommError>([&] { (void)store->get(key); });
  };
  open->set("b", original);  // Under another key.
  EXPECT_NE(refusal("b").find("value under 'b' was not written"), std::string::npos);
  for (std::size_t at = 0; at < original.size(); ++at) {
    auto changed = original;
    changed[at] ^= 1;
    open->set("a", changed);
    EXPECT_THROW((void)store->get("a"), CommError) << at;
  }
  open->set("a", std::vector(original.begin(), original.end() - 1));
  EXPECT_THROW((void)store->get("a"), CommError);
  for (const std::string key : {"a", "b", "c"}) stranger->set(key, bytes("one"));
  open->set("c", bytes(""));
  for (const std::string key : {"a", "b", "c"}) {
    EXPECT_THROW((void)store->get(key), CommError);
    EXPECT_THROW((void)store->multiGet({key}), CommError);
    EXPECT_THROW((void)store->check({"counted", key}), CommError);
    EXPECT_THROW((void)store->add(key, 1), CommError);
    EXPECT_THROW((void)store->compareSet(key, bytes("one"), bytes("two")), CommError);
  }
}

TEST_F(SealedStoreOf, AJobTellsNobodyItsToken) {
  const ChecksumKey token = *key_from_digits("53656372657420746f6b656e21212121");
  SealedStore(open, token).set("a", bytes("one"));
  const auto value = open->get("a");
  EXPECT_EQ(std::string(value.begin(), value.end()).find("Secret"), std::string::npos);
}

// Puts garbage where Gloo looks for the addresses of peers.
class PoisonedStore final : public c10d::HashStore {
 public:
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    const bool is_ours = key.find("accelerate/") != std::string::npos;
    HashStore::set(key, is_ours ? value : std::vector<std::uint8_t>(64, 0xff));
  }
};

TEST(SealedStore, KeepsGlooFromReadingAddressesOfStrangers) {
  const auto open = c10::make_intrusive<PoisonedStore>();
  open->setTimeout(5s);
  std::vector<std::future<std::string>> ranks;
  for (const int rank : {0, 1}) {
    ranks.push_back(std::async(std::launch::async, [&open, rank] {
      return message_of<CommError>([&] {
        (void)make_gloo_communicator(c10::make_intrusive<SealedStore>(open, kToken), rank, 2, 5s);
      });
    }));
  }
  for (auto& rank : ranks) {
    const auto text = rank.get();
    EXPECT_NE(text.find("was not written by a rank of this job"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace accelerate::detail
