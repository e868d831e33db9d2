#include "accelerate/parallel/sharded/unit_gradients.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/operations.h"

namespace accelerate::detail {
namespace {

void refuse_unusable(const at::Tensor& gradient, const UnitParameter& parameter, const Unit& unit) {
  std::string found;
  if (gradient.is_sparse()) {
    found = "sparse; make it dense (sparse(false) of an Embedding)";
  } else if (gradient.requires_grad()) {
    found =
        "part of a graph (create_graph = true), which ends where gradients are sharded; train such "
        "a model without fsdp_plugin, as DDP";
  }
  if (found.empty()) return;
  throw UsageError("the gradient of '" + parameter.name + "' of " + unit.describe() + " is " +
                   found);
}

void refuse_late(const UnitParameter& parameter, const Unit& unit) {
  throw UsageError("the gradient of '" + parameter.name + "' of " + unit.describe() +
                   " came again after the unit's gradients had been sent: a parameter gets one "
                   "gradient in a backward. Re-entrant checkpointing gives it several");
}

bool is_trained(const UnitParameter& parameter) {
  return parameter.leaf().requires_grad();
}

std::uint64_t bit_of(std::size_t leaf) {
  return std::uint64_t{1} << leaf;
}

// Removes the marker of a parameter. Any other tensor in leaf.grad() is the program's, and stays.
void unmark(UnitParameter& parameter) {
  if (!parameter.marker.defined()) return;
  at::Tensor& grad = parameter.leaves.front().mutable_grad();
  if (grad.is_same(parameter.marker)) grad = at::Tensor();
  parameter.marker = at::Tensor();
}

}  // namespace

UnitGradients::UnitGradients(Unit& unit, GradientMemory& memory, std::size_t first, int ranks)
    : unit_(&unit),
      memory_(&memory),
      first_(first),
      share_(1.0 / ranks),
      held_(unit.parameters.size()) {}

// --- a backward ----------------------------------------------------------------------------------

// Removes the markers, because autograd adds to what a leaf's grad holds.
void UnitGradients::begin() {
  follow_leaves();
  auto& parameters = unit_->parameters;
  came_.assign(parameters.size(), 0);
  reached_.assign(parameters.size(), 0);
  missing_ = awaited_ = 0;
  launched_ = false;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    UnitParameter& parameter = parameters[p];
    for (const auto& leaf : parameter.leaves) missing_ += leaf.requires_grad() ? 1 : 0;
    unmark(parameter);
  }
  had_ = held_;
}

std::vector<bool>::const_iterator UnitGradients::expect(std::vector<bool>::const_iterator reached) {
  for (std::size_t p = 0; p < reached_.size(); ++p) {
    const auto& leaves = unit_->parameters[p].leaves;
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      if (!*reached++ || !leaves[l].requires_grad()) continue;
      reached_[p] |= bit_of(l);
      ++awaited_;
    }
  }
  return reached;
}

void UnitGradients::take(std::size_t p, std::size_t l, bool synchronize) {
  UnitParameter& parameter = unit_->parameters[p];
  const at::Tensor gradient = std::exchange(parameter.leaves[l].mutable_grad(), at::Tensor());
  refuse_unusable(gradient, parameter, *unit_);
  if (launched_) refuse_late(parameter, *unit_);
  synchronize ? send(p, gradient) : keep(p, gradient);
  note(p, l);
}

// Puts a gradient, plus what was kept of it, into flat memory, divided by the number of ranks.
void UnitGradients::send(std::size_t p, const at::Tensor& gradient) {
  open();
  at::Tensor place = unit_->part(flat_, p);
  const at::Tensor scale = at::scalar_tensor(share_, at::TensorOptions(at::kDouble));
  if (came_[p] != 0) {
    place.add_(gradient, share_);
  } else if (held_[p]) {
    at::Tensor kept = unit_->part(kept_, p);
    kept.add_(gradient);
    place.copy_(kept.mul_(scale));
    held_[p] = false;
  } else if (gradient.scalar_type() == place.scalar_type()) {
    at::mul_out(place, gradient, scale);
  } else {
    place.copy_(gradient).mul_(scale);
  }
}

void UnitGradients::keep(std::size_t p, const at::Tensor& gradient) {
  if (!kept_.defined()) kept_ = make_kept();
  at::Tensor place = unit_->part(kept_, p);
  held_[p] ? place.add_(gradient) : place.copy_(gradient);
  held_[p] = true;
}

at::Tensor UnitGradients::make_kept() {
  const auto type = unit_->types().master;
  const std::int64_t numel = unit_->layout().numel();
  if (unit_->storage.gradients.defined())
    return unit_->storage.store->accumulated(unit_->index, type, numel);
  return memory_->allocate(numel, at::TensorOptions(type).device(unit_->spec().device));
}

void UnitGradients::release_kept() {
  if (unit_->storage.holds(kept_)) return void(kept_ = at::Tensor());
  memory_->release(kept_);
}

void UnitGradients::note(std::size_t p, std::size_t l) {
  const std::uint64_t bit = bit_of(l);
  if ((std::exchange(came_[p], came_[p] | bit) & bit) != 0) return;
  --missing_;
  if ((reached_[p] & bit) != 0) --awaited_;
}

void UnitGradients::open() {
  if (flat_.defined()) return;
  const auto type = unit_->types().reduce;
  const std::int64_t bytes =
      unit_->layout().numel() * static_cast<std::int64_t>(c10::elementSize(type));
  slot_ = memory_->take_slot(static_cast<std::size_t>(bytes));
  flat_ = slot_.narrow(0, 0, bytes).view(type);
}

void UnitGradients::close() {
  flat_ = at::Tensor();
  memory_->give_back(std::exchange(slot_, {}));
}

// --- the state of the gradients ------------------------------------------------------------------

bool UnitGradients::lacks_only_used(const Usage& usage) const {
  return !any_parameter([&](std::size_t p) {
    const auto& parameter = unit_->parameters[p];
    const bool whole = static_cast<std::size_t>(std::popcount(came_[p])) == parameter.leaves.size();
    return !whole && is_trained(parameter) && !usage.anywhere(first_ + p);
  });
}

bool UnitGradients::is_expected(std::size_t p) const {
  return is_reached(p) || had_[p];
}

bool UnitGradients::is_expected() const {
  return any_parameter([this](std::size_t p) { return is_expected(p); });
}

bool UnitGradients::has_come(std::size_t p) const {
  return came_[p] != 0 || had_[p];
}

bool UnitGradients::is_used(const Usage& usage) const {
  return any_parameter([&](std::size_t p) { return usage.anywhere(first_ + p); });
}

std::vector<std::string> UnitGradients::unused(const Usage& usage) const {
  std::vector<std::string> names;
  for (std::size_t p = 0; p < came_.size(); ++p) {
    const auto& parameter = unit_->parameters[p];
    if (is_trained(parameter) && !usage.anywhere(first_ + p)) names.push_back(parameter.name);
  }
  return names;
}

// --- reduction -----------------------------------------------------------------------------------

void UnitGradients::launch(Communicator& shard) {
  launched_ = true;
  fill_absent();
  if (std::ranges::none_of(held_, std::identity())) release_kept();
  const std::int64_t numel = unit_->layout().slice_numel();
  if (!slice_.defined()) {
    slice_ = unit_->storage.gradients.defined() ? unit_->storage.gradients
                                                : memory_->allocate(numel, unit_->master.options());
  }
  received_ =
      receives_in_slice(shard) ? slice_ : flat_.narrow(0, unit_->spec().slice * numel, numel);
  work_ = shard.reduce_scatter(received_, flat_, ReduceOp::sum);
}

// Fills in gradients that did not come: with what was kept, or with zero.
void UnitGradients::fill_absent() {
  open();
  for (std::size_t p = 0; p < came_.size(); ++p) {
    if (came_[p] != 0) continue;
    at::Tensor place = unit_->part(flat_, p);
    if (held_[p]) {
      place.copy_(unit_->part(kept_, p)).mul_(share_);
      held_[p] = false;
    } else {
      place.zero_();
    }
  }
}

// Whether the sum can be received in `slice_`, which saves a copy: `slice_` has the same type and
// device, and no local.grad() exists to which the sum must be added.
bool UnitGradients::receives_in_slice(const Communicator& shard) const {
  return !shard.reduces_before_scatter() && !unit_->storage.holds(slice_) &&
         slice_.options().type_equal(flat_.options()) &&
         std::ranges::none_of(unit_->parameters, [](const auto& parameter) {
           return parameter.local.grad().defined();
         });
}

void UnitGradients::finish(Communicator* replicate) {
  work_.wait();
  work_ = {};
  if (replicate != nullptr) replicate->all_reduce(received_, ReduceOp::sum).wait();
  if (unit_->storage.holds(slice_)) {
    write_slice();
  } else if (!received_.is_same(slice_)) {
    move_to(slice_);
  }
  received_ = at::Tensor();
  close();
}

// Begins to write the gradients to where they live on disk. What they lie in meanwhile goes back to
// the other units when it is written.
void UnitGradients::write_slice() {
  OffloadStore& store = *unit_->storage.store;
  const bool adds = std::ranges::any_of(
      unit_->parameters, [](const auto& parameter) { return parameter.local.grad().defined(); });
  if (!adds && received_.options().type_equal(slice_.options())) {
    return memory_->give_back_after(store.write(slice_, received_), std::exchange(slot_, {}));
  }
  const at::Tensor sum = at::empty(slice_.sizes(), slice_.options());
  if (adds) store.read(slice_, sum.data_ptr()).wait();
  move_to(sum);
  memory_->keep_during(store.write(slice_, sum), sum);
}

// Adds the received slice to each gradient in `slice` that a local.grad() shows, and copies the
// rest. Gradients that no rank has came as zero, which changes nothing.
void UnitGradients::move_to(const at::Tensor& slice) {
  for (const auto& parameter : unit_->parameters) {
    const auto& piece = parameter.piece;
    const at::Tensor came = received_.narrow(0, piece.in_slice, piece.numel);
    at::Tensor there = slice.narrow(0, piece.in_slice, piece.numel);
    if (const at::Tensor& sum = parameter.local.grad(); sum.defined()) {
      // The program may have put another tensor there.
      const auto own = slice_.narrow(0, piece.in_slice, piece.numel);
      if (slice.is_same(slice_) || sum.const_data_ptr() != own.const_data_ptr()) there = sum;
      there.add_(came.to(there.options()));
    } else {
      there.copy_(came);
    }
  }
}

// --- the end -------------------------------------------------------------------------------------

// Includes parameters that are frozen by now: they may have a gradient from before.
void UnitGradients::store(const Usage& usage) {
  for (std::size_t p = 0; p < came_.size(); ++p) {
    if (launched_ && usage.anywhere(first_ + p)) show(p);
  }
  mark();
}

void UnitGradients::show(std::size_t p) {
  UnitParameter& parameter = unit_->parameters[p];
  if (parameter.local.grad().defined()) return;
  const auto& piece = parameter.piece;
  // Not a view to autograd, because clipping writes it in place.
  at::Tensor grad = at::empty({0}, slice_.options());
  grad.set_(slice_.storage(), slice_.storage_offset() + piece.in_slice, {piece.numel});
  parameter.local.mutable_grad() = grad;
}

void UnitGradients::mark() {
  for (std::size_t p = 0; p < unit_->parameters.size(); ++p) {
    UnitParameter& parameter = unit_->parameters[p];
    if (!held_[p] && !parameter.local.grad().defined()) continue;
    parameter.marker = unit_->gradient_marker(p);
    parameter.leaves.front().mutable_grad() = parameter.marker;
  }
}

void UnitGradients::follow_leaves() {
  for (std::size_t p = 0; p < unit_->parameters.size(); ++p) {
    UnitParameter& parameter = unit_->parameters[p];
    if (!parameter.marker.defined() || parameter.leaf().grad().defined()) continue;
    parameter.marker = at::Tensor();
    drop(p);
  }
}

bool UnitGradients::abandon() {
  const bool kept_before = std::ranges::any_of(had_, std::identity());
  work_ = {};
  received_ = at::Tensor();
  close();
  release_kept();
  held_.assign(held_.size(), false);
  for (auto& parameter : unit_->parameters) {
    for (auto& leaf : parameter.leaves) leaf.mutable_grad() = at::Tensor();
  }
  return kept_before;
}

// Also drops gradients that a backward before prepare(), or past the Accelerator, left in the
// leaves.
void UnitGradients::zero(const std::unordered_set<const void*>& locals, bool set_to_none) {
  for (std::size_t p = 0; p < unit_->parameters.size(); ++p) {
    UnitParameter& parameter = unit_->parameters[p];
    if (!locals.contains(parameter.local.unsafeGetTensorImpl())) continue;
    for (auto& leaf : parameter.leaves) leaf.mutable_grad() = at::Tensor();
    parameter.marker = at::Tensor();
    at::Tensor sum = parameter.local.grad();
    drop(p);
    if (set_to_none || !sum.defined()) continue;
    parameter.local.mutable_grad() = sum.zero_();
  }
  if (!set_to_none) mark();
}

const UnitParameter* UnitGradients::holding_sum() const {
  for (std::size_t p = 0; p < unit_->parameters.size(); ++p) {
    const UnitParameter& parameter = unit_->parameters[p];
    if (parameter.marker.defined() && parameter.leaf().grad().defined() && !held_[p])
      return &parameter;
  }
  return nullptr;
}

void UnitGradients::drop(std::size_t p) {
  held_[p] = false;
  unit_->parameters[p].local.mutable_grad() = at::Tensor();
}

}  // namespace accelerate::detail
