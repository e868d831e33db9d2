// A unit: parameters whose full values come and go together. Each rank keeps a slice of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/parallel/offload/offload_store.h"
#include "accelerate/tensor/compat/lent_storage.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

// Where the parameters of a unit lie in its flat memory, and which part of each belongs to a rank.

/// Lays out parameters one after the other, row-major, each from a cache line on. The whole is cut
/// into equal slices, one per rank, without regard to where parameters end. Offsets count elements.
class FlatLayout {
 public:
  /// In elements: 64 bytes of a two-byte type.
  static constexpr std::int64_t kAlignment = 32;

  FlatLayout(const std::vector<std::int64_t>& numels, int slices);

  /// The number of elements of all slices, padding included.
  [[nodiscard]] std::int64_t numel() const { return slice_numel_ * slices_; }
  [[nodiscard]] std::int64_t slice_numel() const { return slice_numel_; }
  [[nodiscard]] std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }

  /// The part of a parameter that lies in a slice.
  struct Piece {
    std::int64_t in_parameter = 0;  ///< Its first element, counted in the parameter.
    std::int64_t in_slice = 0;      ///< Its first element, counted in the slice.
    std::int64_t numel = 0;         ///< May be 0.
  };
  [[nodiscard]] Piece piece(std::size_t parameter, int slice) const;

 private:
  std::vector<std::int64_t> numels_, offsets_;
  std::int64_t slices_;
  std::int64_t slice_numel_ = 0;
};

/// In bytes, where the memory of units lies side by side.
inline constexpr std::size_t kUnitAlignment = 64;

/// A parameter of the user's model in its unit.
struct UnitParameter {
  std::string name;
  std::vector<at::Tensor> leaves;  ///< The user's tensors; several when they share their memory.
  std::vector<std::int64_t> shape;
  FlatLayout::Piece piece;             ///< This rank's part.
  at::Tensor local;                    ///< Shape {piece.numel}, master dtype: what optimizers hold.
  at::Tensor marker;                   ///< Stands in leaf.grad() while the gradient is in `local`.
  std::vector<std::int64_t> versions;  ///< Versions of the leaves, as the engine left them.

  [[nodiscard]] const at::Tensor& leaf() const { return leaves.front(); }
};

/// Types of a unit's memory.
struct UnitTypes {
  at::ScalarType compute;  ///< The user's module computes in it.
  at::ScalarType master;   ///< Optimizers hold it.
  at::ScalarType reduce;   ///< Gradients travel in it.
};

struct UnitSpec {
  std::string name;  ///< "" for the root: what no wrapped module holds.
  std::vector<NamedTensor> parameters;
  UnitTypes types;
  int slices = 1;
  int slice = 0;              ///< Number of this rank's slice.
  c10::Device device;         ///< Where the model computes.
  c10::Device master_device;  ///< Where slices stay.
};

/// What of a unit's slice lives in files. Undefined tensors: it lives in memory.
struct UnitStorage {
  std::shared_ptr<OffloadStore> store;  ///< Null when everything lives in memory.
  at::Tensor slice;                     ///< {slice_numel}, compute type.
  at::Tensor master;                    ///< {slice_numel}, master type; only if that differs.
  at::Tensor gradients;                 ///< {slice_numel}, master type.

  [[nodiscard]] bool holds(const at::Tensor& tensor) const { return store && store->holds(tensor); }
};

class Unit final : public compat::StorageOwner {
 public:
  using Watcher = std::function<void(Unit&, const compat::OperatorUse&)>;

  /// Leaves of `spec` over the same memory become one parameter. Throws UsageError when leaves
  /// overlap partly.
  explicit Unit(UnitSpec spec);

  /// Returns "unit 'encoder.0'" or "the root unit".
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] const std::string& name() const { return spec_.name; }
  [[nodiscard]] const UnitTypes& types() const { return spec_.types; }
  [[nodiscard]] const UnitSpec& spec() const { return spec_; }
  [[nodiscard]] const FlatLayout& layout() const { return layout_; }
  [[nodiscard]] std::size_t full_bytes() const;
  [[nodiscard]] std::size_t slice_bytes() const;
  [[nodiscard]] bool is_trainable() const { return trainable_; }

  std::vector<UnitParameter> parameters;
  std::size_t index = 0;  ///< Among the units of the model.
  compat::LentStorage full;
  at::Tensor slice;   ///< {slice_numel}, compute dtype, where peers find it.
  at::Tensor master;  ///< {slice_numel}, master dtype; the same memory as `slice` if types agree.
  UnitStorage storage;

  /// Takes `slice_memory` as `slice`, and makes `master` and the parameters' `local`.
  void set_slice(at::Tensor slice_memory);
  /// Copies the master values to `slice`, where peers find them, if they have changed. Parts that
  /// were written past the version counters do not count as changed when they live in files.
  void publish();
  /// Returns the master values in memory, {slice_numel}: `master`, or a copy that is read from its
  /// file. Throws FileError.
  [[nodiscard]] at::Tensor values() const;
  /// Copies `values`, {slice_numel}, to `master`.
  void set_values(const at::Tensor& values);
  /// Cuts this rank's slice out of the leaves' initial values, one parameter after the other.
  void fill_slice();
  /// Returns the initial values of all leaves, one after the other, in master dtype: a new tensor
  /// {numel}.
  [[nodiscard]] at::Tensor flatten() const;
  /// Makes the user's leaves tensors in `full`, and lets go of the memory that they were in.
  void adopt_leaves();
  /// Returns parameter `i` as a part of `flat`, {numel}, in its own shape.
  [[nodiscard]] at::Tensor part(const at::Tensor& flat, std::size_t i) const;

  /// Returns the parameter at element `offset` of the unit.
  [[nodiscard]] const UnitParameter& parameter_at(std::int64_t offset) const;

  /// Returns a tensor that stands for the gradient of parameter `i` in a leaf's grad(). It has the
  /// parameter's shape. Whoever reads it gets an error that says where the gradient is.
  [[nodiscard]] at::Tensor gradient_marker(std::size_t i) const;

  /// Bumps the versions of the leaves after an update, so that graphs made before it are out of
  /// date.
  void bump_versions();
  /// Throws UsageError, which names `rank`, when a leaf left the unit, was changed in place or
  /// unfrozen.
  void require_untouched(int rank) const;

  void watch(Watcher watcher) { watcher_ = std::move(watcher); }
  void before_use(const compat::OperatorUse& use) noexcept override {
    if (watcher_) watcher_(*this, use);
  }

 private:
  [[nodiscard]] std::int64_t writes() const;
  [[nodiscard]] std::string change_of(const UnitParameter& parameter, std::size_t leaf) const;

  // Does nothing: the storage of markers is never there, so there is nothing to gather.
  struct NoOwner final : compat::StorageOwner {
    void before_use(const compat::OperatorUse&) noexcept override {}
  };

  UnitSpec spec_;
  FlatLayout layout_;
  NoOwner no_owner_;
  compat::LentStorage gradients_;
  bool trainable_ = false;
  std::int64_t published_writes_ = -1;
  Watcher watcher_;
};

}  // namespace accelerate::detail
