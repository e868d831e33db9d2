#include "accelerate/parallel/sharded/unit.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/deferred_init.h"
#include "accelerate/tensor/compat/leaf_memory.h"

namespace accelerate::detail {
namespace {

// The bytes that a leaf takes up, or would take up if it is on the meta device.
struct Extent {
  const void* storage = nullptr;
  std::int64_t begin = 0, end = 0;

  explicit Extent(const at::Tensor& leaf) {
    if (leaf.numel() == 0 || !leaf.has_storage()) return;
    storage = leaf.storage().unsafeGetStorageImpl();
    begin = leaf.storage_offset() * static_cast<std::int64_t>(leaf.element_size());
    end = begin + static_cast<std::int64_t>(leaf.nbytes());
  }
  [[nodiscard]] bool overlaps(const Extent& other) const {
    return storage != nullptr && storage == other.storage && begin < other.end && other.begin < end;
  }
};

bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

// Returns the parameter that lies in the same memory as `item`; null if none. Throws UsageError
// when one lies only partly in it.
UnitParameter* find_shared(std::vector<UnitParameter>& known, const NamedTensor& item) {
  const Extent extent(item.tensor);
  for (auto& parameter : known) {
    if (!extent.overlaps(Extent(parameter.leaf()))) continue;
    if (is_same_memory(parameter.leaf(), item.tensor)) return &parameter;
    throw UsageError("the parameters '" + parameter.name + "' and '" + item.name +
                     "' lie partly in the same memory, which cannot be sharded: make them one "
                     "parameter, of which forward() takes slices");
  }
  return nullptr;
}

std::vector<UnitParameter> parameters_of(const std::vector<NamedTensor>& leaves) {
  std::vector<UnitParameter> found;
  for (const auto& item : leaves) {
    if (auto* shared = find_shared(found, item)) {
      shared->leaves.push_back(item.tensor);
      continue;
    }
    UnitParameter& parameter = found.emplace_back();
    parameter.name = item.name;
    parameter.leaves = {item.tensor};
    parameter.shape = item.tensor.sizes().vec();
  }
  return found;
}

void note_versions(UnitParameter& parameter) {
  parameter.versions.clear();
  for (const auto& leaf : parameter.leaves) parameter.versions.push_back(leaf._version());
}

// Returns `leaf`, detached. If it has no memory, returns a new tensor with the values that its
// constructor would have set. Throws UsageError when these values are unknown.
at::Tensor initial_value(const at::Tensor& leaf) {
  return leaf.is_meta() ? compat::deferred_value(leaf) : leaf.detach();
}

std::vector<std::int64_t> numels_of(const std::vector<UnitParameter>& parameters) {
  std::vector<std::int64_t> numels;
  for (const auto& parameter : parameters) numels.push_back(parameter.leaf().numel());
  return numels;
}

}  // namespace

Unit::Unit(UnitSpec spec)
    : parameters(parameters_of(spec.parameters)),
      full(*this,
           static_cast<std::size_t>(FlatLayout(numels_of(parameters), spec.slices).numel()) *
               c10::elementSize(spec.types.compute),
           spec.device),
      spec_(std::move(spec)),
      layout_(numels_of(parameters), spec_.slices),
      gradients_(no_owner_, full_bytes(), spec_.device) {
  gradients_.withdraw("the gradients of " + describe() + " (" + parameters.front().name +
                      ", …) lie in shards: hand the optimizer to prepare(), clip with "
                      "accelerator.clip_grad_norm_(), and read model.local_parameters(). "
                      "A backward that adds to them is accelerator.backward(loss)");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].piece = layout_.piece(i, spec_.slice);
    trainable_ = trainable_ || parameters[i].leaf().requires_grad();
  }
}

std::string Unit::describe() const {
  return spec_.name.empty() ? "the root unit" : "unit '" + spec_.name + "'";
}

std::size_t Unit::full_bytes() const {
  return static_cast<std::size_t>(layout_.numel()) * c10::elementSize(spec_.types.compute);
}

std::size_t Unit::slice_bytes() const {
  return full_bytes() / static_cast<std::size_t>(spec_.slices);
}

void Unit::set_slice(at::Tensor slice_memory) {
  slice = std::move(slice_memory);
  const auto options = at::TensorOptions(spec_.types.master).device(spec_.master_device);
  const bool one =
      spec_.types.master == spec_.types.compute && slice.device() == spec_.master_device;
  master = one                        ? slice
           : storage.master.defined() ? storage.master
                                      : at::zeros({layout_.slice_numel()}, options);
  for (auto& parameter : parameters) {
    // Not a view to autograd, because optimizers write it in place.
    parameter.local = at::empty({0}, options);
    parameter.local.set_(master.storage(), master.storage_offset() + parameter.piece.in_slice,
                         {parameter.piece.numel});
    parameter.local.set_requires_grad(parameter.leaf().requires_grad());
    if (storage.store && parameter.local.requires_grad())
      storage.store->know(parameter.local, index, parameter.piece.in_slice);
  }
  if (!one && storage.holds(master)) storage.store->mirror(index, master, slice);
}

// The number of writes that the version counters have seen.
std::int64_t Unit::writes() const {
  std::int64_t count = master._version();
  for (const auto& parameter : parameters) count += parameter.local._version();
  return count;
}

void Unit::publish() {
  if (master.is_same(slice)) return;
  const at::NoGradGuard no_grad;
  if (!storage.store) return void(slice.copy_(master));
  if (storage.store->take_mirrored(index)) return;
  const bool is_published = std::exchange(published_writes_, writes()) == writes();
  if (is_published && storage.holds(master)) return;
  const at::Tensor fresh = values().to(slice.options());
  storage.holds(slice) ? storage.store->write(slice, fresh).wait() : void(slice.copy_(fresh));
}

// A page that is lost is an error of this read, and zeros where the mapping is read.
at::Tensor Unit::values() const {
  if (!storage.holds(master)) return master;
  at::Tensor copy = aligned_memory(master.nbytes()).view(master.scalar_type());
  storage.store->read(master, copy.data_ptr()).wait();
  return copy;
}

void Unit::set_values(const at::Tensor& values) {
  if (!storage.holds(master)) return void(master.copy_(values));
  const at::Tensor written = values.to(master.options()).contiguous();
  storage.store->write(master, written).wait();
  master.unsafeGetTensorImpl()->bump_version();
}

void Unit::fill_slice() {
  const at::NoGradGuard no_grad;
  // The gaps between parameters are never used, but are the same in every run.
  const at::Tensor flat = storage.holds(master)
                              ? aligned_memory(master.nbytes()).view(master.scalar_type()).zero_()
                              : master.zero_();
  for (const auto& parameter : parameters) {
    if (parameter.piece.numel == 0) continue;
    const at::Tensor values = initial_value(parameter.leaf()).reshape({-1});
    flat.narrow(0, parameter.piece.in_slice, parameter.piece.numel)
        .copy_(values.narrow(0, parameter.piece.in_parameter, parameter.piece.numel));
  }
  if (!flat.is_same(master)) set_values(flat);
}

at::Tensor Unit::flatten() const {
  const at::NoGradGuard no_grad;
  at::Tensor flat =
      at::zeros({layout_.numel()}, at::TensorOptions(spec_.types.master).device(spec_.device));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    part(flat, i).copy_(initial_value(parameters[i].leaf()));
  }
  return flat;
}

at::Tensor Unit::part(const at::Tensor& flat, std::size_t i) const {
  const auto& shape = parameters[i].shape;
  return flat.narrow(0, layout_.offset(i), c10::multiply_integers(shape)).view(shape);
}

void Unit::adopt_leaves() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (auto& leaf : parameters[i].leaves) {
      compat::materialise_(
          leaf, full.tensor(layout_.offset(i), parameters[i].shape, spec_.types.compute));
    }
    note_versions(parameters[i]);
  }
}

const UnitParameter& Unit::parameter_at(std::int64_t offset) const {
  std::size_t i = parameters.size() - 1;
  while (i > 0 && layout_.offset(i) > offset) --i;
  return parameters[i];
}

at::Tensor Unit::gradient_marker(std::size_t i) const {
  return gradients_.tensor(layout_.offset(i), parameters[i].shape, spec_.types.compute);
}

void Unit::bump_versions() {
  for (auto& parameter : parameters) {
    for (const auto& leaf : parameter.leaves) leaf.unsafeGetTensorImpl()->bump_version();
    note_versions(parameter);
  }
}

void Unit::require_untouched(int rank) const {
  for (const auto& parameter : parameters) {
    for (std::size_t i = 0; i < parameter.leaves.size(); ++i) {
      const std::string found = change_of(parameter, i);
      if (found.empty()) continue;
      throw UsageError("parameter '" + parameter.name + "' of " + describe() + " was " + found +
                       ", on rank " + std::to_string(rank));
    }
  }
}

// Returns what happened to leaf `i` that is not allowed; empty if nothing did.
std::string Unit::change_of(const UnitParameter& parameter, std::size_t i) const {
  const at::Tensor& leaf = parameter.leaves[i];
  if (compat::LentStorage::owner_of(leaf) != this) {
    return "given other memory after prepare(), as by module->to(dtype) or set_data(), so that its "
           "values are no longer those that are trained: convert and move the module before "
           "prepare()";
  }
  if (leaf._version() != parameter.versions[i]) {
    return "changed in place after prepare(), on every rank, or on this rank alone: change it "
           "before prepare(), or inside summon_full_params({.writeback = true})";
  }
  if (leaf.requires_grad() && !parameter.local.requires_grad()) {
    return "unfrozen after prepare(), so there is no memory for its gradients: call "
           "requires_grad_(true) before prepare(), and freeze it afterwards";
  }
  return {};
}

FlatLayout::FlatLayout(const std::vector<std::int64_t>& numels, int slices)
    : numels_(numels), slices_(slices) {
  std::int64_t end = 0;
  for (const std::int64_t numel : numels_) {
    offsets_.push_back(end);
    end += round_up(numel, kAlignment);
  }
  slice_numel_ = round_up(end, kAlignment * slices_) / slices_;
}

FlatLayout::Piece FlatLayout::piece(std::size_t parameter, int slice) const {
  const std::int64_t first = slice_numel_ * slice;
  const std::int64_t start = offsets_[parameter];
  const std::int64_t begin = std::clamp(start, first, first + slice_numel_);
  const std::int64_t end = std::clamp(start + numels_[parameter], first, first + slice_numel_);
  if (end <= begin) return {};
  return {begin - start, begin - first, end - begin};
}

}  // namespace accelerate::detail
