#include "accelerate/parallel/sharded/initial_values.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <unordered_set>

#include "accelerate/base/error.h"
#include "accelerate/comm/operations.h"
#include "accelerate/tensor/compat/deferred_init.h"
#include "accelerate/tensor/compat/leaf_memory.h"

namespace accelerate::detail {
namespace {

std::string whose(const Unit& unit, const UnitParameter& parameter) {
  return "parameter '" + parameter.name + "' of " + unit.describe();
}

// Returns why `leaf` cannot have values; "" when it can.
std::string lack_of(const std::string& what, const at::Tensor& leaf, const std::string& cure) {
  if (!leaf.is_meta()) return "";
  try {
    compat::check_deferred(leaf);
    return "";
  } catch (const UsageError& error) {
    return what + " cannot be sharded: " + describe(error) + cure;
  }
}

std::string first_lack(bool needs_common, const Units& units, const WholeTensors& whole) {
  const std::string cure =
      " With sync_module_states = true only rank 0 needs values, which go to everyone.";
  std::string lack;
  for (const auto& unit : units) {
    if (!needs_common) break;
    for (const auto& parameter : unit->parameters) {
      lack = lack_of(whose(*unit, parameter), parameter.leaf(), cure);
      if (!lack.empty()) return lack;
    }
  }
  for (const auto& [name, buffer] : whole.buffers) {
    if (needs_common && lack.empty()) lack = lack_of("buffer '" + name + "'", buffer, cure);
  }
  for (const auto& [name, leaf] : whole.parameters) {
    const std::string own = " Every rank needs its own values for an ignored module.";
    if (lack.empty()) lack = lack_of("the ignored parameter '" + name + "'", leaf, own);
  }
  return lack;
}

void give_memory(const std::vector<NamedTensor>& tensors, c10::Device device) {
  std::vector<at::Tensor> deferred;
  for (const auto& item : tensors) {
    if (compat::is_deferred(item.tensor)) deferred.push_back(item.tensor);
  }
  compat::materialise_deferred_(deferred, device);
  for (const auto& item : tensors) {
    if (item.tensor.device() == device) continue;
    compat::materialise_(item.tensor, item.tensor.detach().to(device));
  }
}

void receive(Communicator& ranks, const NamedTensor& buffer, c10::Device device) {
  if (buffer.tensor.device() != device) {
    const auto options = at::TensorOptions(buffer.tensor.scalar_type()).device(device);
    compat::materialise_(buffer.tensor, at::empty(buffer.tensor.sizes(), options));
  }
  const at::Tensor sent = buffer.tensor.detach().contiguous();
  ranks.broadcast(sent, 0).wait();
  if (sent.data_ptr() != buffer.tensor.data_ptr()) buffer.tensor.detach().copy_(sent);
}

// Receives this rank's slice of rank 0's values; no other rank needs values.
void receive_slice(Communicator& ranks, Unit& unit, c10::Device device) {
  std::vector<at::Tensor> slices;
  if (ranks.rank() == 0) {
    const auto parts = unit.flatten().chunk(unit.spec().slices);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      slices.push_back(parts[static_cast<std::size_t>(rank % unit.spec().slices)]);
    }
  }
  const at::Tensor mine =
      at::empty({unit.layout().slice_numel()}, unit.master.options().device(device));
  ranks.scatter(mine, slices, 0).wait();
  unit.set_values(mine);
}

}  // namespace

WholeTensors whole_tensors(const ModuleView& view, const Units& units) {
  std::unordered_set<const void*> in_units;
  for (const auto& unit : units) {
    for (const auto& parameter : unit->parameters) {
      for (const auto& leaf : parameter.leaves) in_units.insert(leaf.unsafeGetTensorImpl());
    }
  }
  WholeTensors whole{without_duplicates(view.parameters), without_duplicates(view.buffers)};
  std::erase_if(whole.parameters, [&](const NamedTensor& item) {
    return in_units.contains(item.tensor.unsafeGetTensorImpl());
  });
  return whole;
}

void require_values(Communicator& ranks, const Units& units, const WholeTensors& whole,
                    const ValuesOptions& options) {
  const bool needs_common = !options.from_rank_0 || ranks.rank() == 0;
  refuse_together(ranks, first_lack(needs_common, units, whole));
}

void fill_slice(Communicator& ranks, Unit& unit, const ValuesOptions& options) {
  options.from_rank_0 ? receive_slice(ranks, unit, options.device) : unit.fill_slice();
}

void take_over(Communicator& ranks, const WholeTensors& whole, const ValuesOptions& options) {
  give_memory(whole.parameters, options.device);
  if (!options.from_rank_0 || ranks.rank() == 0) give_memory(whole.buffers, options.device);
  if (!options.from_rank_0) return;
  for (const auto& buffer : whole.buffers) receive(ranks, buffer, options.device);
}

FormerMemory::FormerMemory(const Units& units) {
  for (const auto& unit : units) {
    for (const auto& parameter : unit->parameters) {
      for (const auto& leaf : parameter.leaves) {
        if (leaf.is_meta() || leaf.numel() == 0) continue;
        places_.emplace_back(parameter.name, leaf.storage().getWeakStorageImpl());
      }
    }
  }
}

std::vector<std::string> FormerMemory::still_held(const WholeTensors& whole) const {
  std::unordered_set<const void*> known;
  for (const auto* tensors : {&whole.parameters, &whole.buffers}) {
    for (const auto& [name, tensor] : *tensors) {
      if (tensor.has_storage()) known.insert(tensor.storage().unsafeGetStorageImpl());
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, memory] : places_) {
    const auto held = memory.lock();
    if (!held || known.contains(held.get())) continue;
    if (names.empty() || names.back() != name) names.push_back(name);  // Tied leaves.
  }
  return names;
}

}  // namespace accelerate::detail
