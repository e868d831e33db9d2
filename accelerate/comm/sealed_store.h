// A store whose values only ranks of the job can have written.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/keyed_checksum.h"

namespace accelerate::detail {

/// Puts a checksum of key and value, keyed by the token of the job, before each value that it sets,
/// and takes values with the right one only. A stranger can take values away, which ends
/// in a timeout, or put others there, which ends in a CommError that names the key; but none that
/// a rank takes for a peer's. The token is never in the store, whose keys anybody can list. With
/// a token of zeros the checksum finds accidents only.
///
/// Has what Gloo, NCCL and we ask a store for; add() and append() read and replace until nobody
/// came between. Queues and lists of keys throw c10's NotImplementedError. Thread-safe as far as the store behind it is. Cost: a
/// true answer of check() reads what it is about.
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

  /// What one writes never equals what another writes, so that whoever replaces a value knows
  /// whether it was the one who did.
  [[nodiscard]] Bytes sealed(const std::string& key, const Bytes& value) const;
  [[nodiscard]] Bytes opened(const std::string& key, const Bytes& sealed) const;
  /// Replaces the value, empty when absent, by what `change` makes of it, which may be to leave it.
  /// Returns the value that is there then.
  Bytes replace(const std::string& key,
                const std::function<std::optional<Bytes>(const Bytes&)>& change);

  c10::intrusive_ptr<c10d::Store> store_;
  ChecksumKey token_;
};

/// The store behind all prefixes and seals.
[[nodiscard]] const c10d::Store& innermost(const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace accelerate::detail
