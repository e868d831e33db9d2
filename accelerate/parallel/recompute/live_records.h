// Which records hold tensors in a storage.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <memory>
#include <unordered_map>

namespace accelerate::detail {

/// Holds tensors whose values must stay.
class StorageHolder {
 public:
  virtual ~StorageHolder() = default;
  /// To be called before an operator writes into `storage`: the holder takes a copy.
  virtual void before_write(const c10::StorageImpl* storage) = 0;
};

/// The records of a thread that backward may still need, by what they hold. What the thread's later
/// operators write must not change that, whichever model they belong to.
class LiveRecords {
 public:
  [[nodiscard]] static LiveRecords& of_thread();

  void add(const c10::StorageImpl* storage, std::weak_ptr<StorageHolder> record);
  /// To be called before an operator writes into `storage`.
  void before_write(const c10::StorageImpl* storage);

 private:
  void forget_expired();

  std::unordered_multimap<const c10::StorageImpl*, std::weak_ptr<StorageHolder>> records_;
  std::size_t most_ = 1024;  // Above it, those that are gone are looked for.
};

}  // namespace accelerate::detail
