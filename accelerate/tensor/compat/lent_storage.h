// Storage whose memory comes and goes while tensors lie in it, and a watch for operators that are
// about to use it. Both depend on internals of LibTorch (2.11 to 2.13): StorageImpl's DataPtr and
// RecordFunction.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace accelerate::compat {

/// An operator that is about to run on a tensor.
struct OperatorUse {
  const char* name;         ///< "aten::addmm".
  bool writes;              ///< Whether it changes the tensor in place.
  std::uint64_t outermost;  ///< Number of the user's call; all operators inside it share it.
  std::int64_t offset;      ///< Offset of the tensor in its storage, in elements.
};

/// Lends memory to a LentStorage.
class StorageOwner {
 public:
  virtual ~StorageOwner() = default;
  /// Runs before the operator, on its thread. Operators that this function calls are not watched.
  /// It cannot stop the operator by throwing, because LibTorch would swallow the exception:
  /// withdraw the memory instead.
  virtual void before_use(const OperatorUse& use) noexcept = 0;
};

/// A storage of `bytes` whose memory can be present or absent. Tensors in it keep their identity:
/// they stay leaves, with their version counters and hooks.
class LentStorage {
 public:
  /// Makes a storage without memory. `owner` must outlive it.
  LentStorage(StorageOwner& owner, std::size_t bytes, c10::Device device);
  /// Tensors that still exist throw the message of withdraw() from now on.
  ~LentStorage();
  LentStorage(const LentStorage&) = delete;
  LentStorage& operator=(const LentStorage&) = delete;

  /// Puts the storage at `data`, which has `bytes` bytes.
  void lend(void* data);
  /// Takes the memory away. Reading or writing the storage then throws a c10::Error with the
  /// sentence `why` (before LibTorch 2.13, with LibTorch's own sentence). Freed memory is never
  /// touched.
  void withdraw(const std::string& why);
  [[nodiscard]] bool is_there() const { return there_; }

  /// Returns a row-major tensor in the storage, from element `offset` on. Autograd does not take it
  /// for a view.
  [[nodiscard]] at::Tensor tensor(std::int64_t offset, at::IntArrayRef sizes,
                                  at::ScalarType dtype) const;

  /// Returns the owner of the memory in which `tensor` lies; null for ordinary tensors. Cost:
  /// nanoseconds.
  [[nodiscard]] static StorageOwner* owner_of(const at::Tensor& tensor) noexcept;

 private:
  void put(void* data, StorageOwner* owner);

  StorageOwner* owner_;
  c10::Device device_;
  c10::Storage storage_;
  bool there_ = false;
};

/// While a watch is alive, owners are told about every operator that reads or writes their tensors,
/// on all threads, forward and backward. Operators that only make views (t, view, …) are skipped;
/// operators that read the view are reported. Cost: 0.1 to 0.4 us an operator.
class OperatorWatch {
 public:
  OperatorWatch();
  ~OperatorWatch();
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;
};

}  // namespace accelerate::compat
