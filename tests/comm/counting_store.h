// A store that counts the queries of one rank.
#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

namespace accelerate::testing {

/// Stands before the store of all ranks. A question whether keys are there is counted when they are:
/// a rank that has to wait asks again.
class CountingStore final : public c10d::PrefixStore {
 public:
  using Bytes = std::vector<std::uint8_t>;
  explicit CountingStore(const c10::intrusive_ptr<c10d::Store>& store)
      : PrefixStore("all", store) {}

  [[nodiscard]] int queries() const { return queries_; }
  /// The most keys of one query.
  [[nodiscard]] int most_keys() const { return static_cast<int>(most_keys_); }

  using PrefixStore::set;
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::intrusive_ptr<c10d::Store>::unsafe_reclaim_from_nonowning(this);
  }
  void set(const std::string& key, const Bytes& value) override {
    count(1);
    PrefixStore::set(key, value);
  }
  Bytes get(const std::string& key) override {
    count(1);
    return PrefixStore::get(key);
  }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    count(1);
    return PrefixStore::compareSet(key, expected, desired);
  }
  bool check(const std::vector<std::string>& keys) override {
    const bool are_there = PrefixStore::check(keys);
    if (are_there) count(keys.size());
    return are_there;
  }
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override {
    count(keys.size());
    return PrefixStore::multiGet(keys);
  }
  void multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) override {
    count(keys.size());
    PrefixStore::multiSet(keys, values);
  }

 private:
  void count(std::size_t keys) {
    ++queries_;
    if (keys > most_keys_) most_keys_ = keys;
  }

  std::atomic<int> queries_ = 0;
  std::atomic<std::size_t> most_keys_ = 0;
};

}  // namespace accelerate::testing
