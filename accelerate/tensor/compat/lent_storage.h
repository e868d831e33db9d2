// Storage whose memory comes and goes while tensors lie in it, and a watch over the operators that
// are about to use it. Both lean on internals of LibTorch (2.11 to 2.13): StorageImpl's DataPtr and
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
  bool writes;              ///< It changes the tensor in place.
  std::uint64_t outermost;  ///< Number of the call that the user's code made: the same for all
                            ///< operators that it consists of.
  std::int64_t offset;      ///< Of the tensor in its storage, in elements.
};

/// Whoever lends memory to a LentStorage.
class StorageOwner {
 public:
  virtual ~StorageOwner() = default;
  /// Runs before the operator, on its thread; operators of its own are not watched. It cannot stop
  /// the operator by throwing (LibTorch would swallow that): withdraw the memory instead.
  virtual void before_use(const OperatorUse& use) noexcept = 0;
};

/// A storage of `bytes` that can be there or not. Tensors in it stay what they are: leaves, with
/// their version counters and hooks.
class LentStorage {
 public:
  /// Not there. `owner` must outlive it.
  LentStorage(StorageOwner& owner, std::size_t bytes, c10::Device device);
  /// Tensors that are left over throw what withdraw() said.
  ~LentStorage();
  LentStorage(const LentStorage&) = delete;
  LentStorage& operator=(const LentStorage&) = delete;

  /// The storage lies at `data`, `bytes` long, from now on.
  void lend(void* data);
  /// It is not there: whoever reads or writes it gets a c10::Error with the sentence `why` (with
  /// LibTorch's own sentence before 2.13), never freed memory.
  void withdraw(const std::string& why);
  [[nodiscard]] bool is_there() const { return there_; }

  /// A tensor in the storage, row-major, from element `offset` on; no view to autograd.
  [[nodiscard]] at::Tensor tensor(std::int64_t offset, at::IntArrayRef sizes,
                                  at::ScalarType dtype) const;

  /// Who lends the memory in which `tensor` lies; null for ordinary tensors. Cost: nanoseconds.
  [[nodiscard]] static StorageOwner* owner_of(const at::Tensor& tensor) noexcept;

 private:
  void put(void* data, StorageOwner* owner);

  StorageOwner* owner_;
  c10::Device device_;
  c10::Storage storage_;
  bool there_ = false;
};

/// While one is alive, owners are told of every operator that reads or writes their tensors, on all
/// threads, forward and backward. Operators that only make views (t, view, …) are passed over: what
/// reads the view is told of. Cost: 0.1 to 0.4 us an operator.
class OperatorWatch {
 public:
  OperatorWatch();
  ~OperatorWatch();
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;
};

}  // namespace accelerate::compat
