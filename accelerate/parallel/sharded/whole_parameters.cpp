#include "accelerate/parallel/sharded/whole_parameters.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/operations.h"
#include "accelerate/tensor/compat/leaf_memory.h"

namespace accelerate::detail {
namespace {

// Whether `leaf` lies in other memory than `place`. Throws UsageError for another shape or type.
bool has_moved(const at::Tensor& leaf, const at::Tensor& place, const std::string& name) {
  if (leaf.is_same_size(place) && leaf.options().type_equal(place.options())) {
    return leaf.const_data_ptr() != place.const_data_ptr();
  }
  throw UsageError("parameter '" + name + "' became " + describe_tensor(leaf) +
                   " inside summon_full_params(); it is " + describe_tensor(place) +
                   " to its optimizer. Convert or reshape a model before prepare()");
}

}  // namespace

WholeParameters::WholeParameters(Units& units, const ShardGroups& groups, at::Device device)
    : units_(units), groups_(groups), device_(device) {}

at::Tensor WholeParameters::gather(const Unit& unit) const {
  const at::Tensor mine = unit.values().to(device_);
  const at::Tensor all = at::empty({unit.layout().numel()}, mine.options());
  groups_.shard->all_gather(all, mine).wait();
  return all;
}

void WholeParameters::summon(bool here) {
  const at::NoGradGuard no_grad;
  const c10::InferenceMode no_inference(false);
  try {
    for (auto& unit : units_) {
      const at::Tensor flat = gather(*unit);
      flats_.push_back(here ? flat : at::Tensor());
      if (here) lay_leaves(*unit, flat);
    }
  } catch (...) {
    dismiss();
    throw;
  }
}

void WholeParameters::lay_leaves(Unit& unit, const at::Tensor& flat) {
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const at::Tensor part = unit.part(flat, i);
    for (auto& leaf : unit.parameters[i].leaves) {
      at::Tensor place = at::empty({0}, flat.options());
      place.set_(part.storage(), part.storage_offset(), part.sizes(), part.strides());
      compat::materialise_(leaf, place);
    }
  }
}

// Copies the values of moved leaves back. Leaves may have exchanged their memory, so all are read
// before any is written.
void WholeParameters::take_in() const {
  const at::NoGradGuard no_grad;
  const auto is_ours = [this](const at::Tensor& leaf) {
    return std::ranges::any_of(flats_, [&](const auto& flat) { return leaf.is_alias_of(flat); });
  };
  std::vector<std::pair<at::Tensor, at::Tensor>> moved;  // Place and value.
  for (std::size_t u = 0; u < flats_.size(); ++u) {
    if (!flats_[u].defined()) continue;
    const auto& parameters = units_[u]->parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor place = units_[u]->part(flats_[u], i);
      for (const auto& leaf : parameters[i].leaves) {
        if (!has_moved(leaf, place, parameters[i].name)) continue;
        moved.emplace_back(place, is_ours(leaf) ? leaf.clone() : leaf);
      }
    }
  }
  for (const auto& [place, value] : moved) place.copy_(value);
}

std::vector<at::Tensor> WholeParameters::take_back() {
  std::string refusal;
  try {
    take_in();
  } catch (const UsageError& error) {
    refusal = describe(error);
  } catch (...) {
    dismiss();
    throw;
  }
  auto flats = dismiss();
  refuse_together(*groups_.world, refusal);
  return flats;
}

// After a failed summon() only the first units have flat memory.
std::vector<at::Tensor> WholeParameters::dismiss() {
  const at::NoGradGuard no_grad;
  const c10::InferenceMode no_inference(false);
  auto flats = std::exchange(flats_, {});
  for (std::size_t i = 0; i < flats.size(); ++i) {
    if (flats[i].defined()) units_[i]->adopt_leaves();
  }
  return flats;
}

void WholeParameters::cut(const std::vector<at::Tensor>& flats) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < flats.size(); ++i) {
    Unit& unit = *units_[i];
    const std::int64_t numel = unit.layout().slice_numel();
    unit.set_values(flats[i].narrow(0, unit.spec().slice * numel, numel));
  }
}

}  // namespace accelerate::detail
