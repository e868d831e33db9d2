// A store that accepts only values that ranks of the job have written.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/keyed_checksum.h"
#include "accelerate/tensor/compat/quiet_log.h"

namespace accelerate::detail {

/// Puts a checksum of key and value, keyed by the token of the job, before each value that it sets.
/// Accepts only values with the right checksum. A stranger can delete values, which ends in a
/// timeout, or replace them, which ends in a CommError that names the key. But a rank never takes a
/// stranger's value for a peer's. The token is never in the store, whose keys anybody can list.
/// With a token of zeros the checksum finds only accidental changes.
///
/// Implements what this library, Gloo and NCCL need of a store. add() and append() read and replace
/// the value, and try again if another rank changed it meanwhile. Queues and lists of keys throw
/// c10's NotImplementedError. As thread-safe as the store behind it. Cost: a check() that returns
/// true also reads the values, to verify them.
class SealedStore final : public c10d::Store {
 public:
  SealedStore(c10::intrusive_ptr<c10d::Store> store, const ChecksumKey& token);

  using Store::compareSet;
  using Store::set;

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  const std::chrono::milliseconds& getTimeout() const noexcept override;
  void setTimeout(const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<std::uint8_t>>& values) override;
  bool hasExtendedApi() const override;

  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& behind() const { return store_; }

 private:
  using Bytes = std::vector<std::uint8_t>;

  // The store for one call that returns at once, during which LibTorch does not log what the call
  // throws as well. Of these only NCCL's get() waits, when a group begins.
  struct QuietCall {
    c10d::Store* store;
    compat::QuietLog quiet{};
    c10d::Store* operator->() const { return store; }
  };
  [[nodiscard]] QuietCall quietly() const { return {store_.get()}; }

  /// Returns `value` with its checksum and a random mark. The mark makes all written values differ,
  /// so that a rank that replaces a value can tell whether it was the one that succeeded.
  [[nodiscard]] Bytes sealed(const std::string& key, const Bytes& value) const;
  [[nodiscard]] Bytes opened(const std::string& key, const Bytes& sealed) const;
  /// Replaces the value, empty when absent, by the result of `change`; nullopt leaves it as it is.
  /// Returns the value that is then in the store.
  Bytes replace(const std::string& key,
                const std::function<std::optional<Bytes>(const Bytes&)>& change);

  c10::intrusive_ptr<c10d::Store> store_;
  ChecksumKey token_;
};

/// Returns the store behind all prefixes and seals.
[[nodiscard]] c10d::Store& innermost(const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace accelerate::detail
