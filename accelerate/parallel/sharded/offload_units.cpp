#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/objects.h"
#include "accelerate/comm/operations.h"
#include "accelerate/parallel/sharded/sharding_plan.h"

namespace accelerate::detail {
namespace {

using Kind = OffloadStore::Kind;

// Returns a name that no other model has, of this job or another one: rank 0's process, and when.
std::string name_of_job(Communicator& world) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto name =
      std::to_string(::getpid()) + "-" + std::to_string(std::chrono::nanoseconds(now).count());
  return broadcast_object(world, name);
}

// Units whose parameters stay in memory, because the settings leave room for them: from the first
// one on.
std::vector<bool> units_in_memory(const Units& units, std::int64_t max_in_cpu) {
  std::vector<bool> in_memory;
  for (const auto& unit : units) {
    const auto bytes = static_cast<std::int64_t>(unit->slice_bytes());
    in_memory.push_back(bytes <= max_in_cpu);
    if (in_memory.back()) max_in_cpu -= bytes;
  }
  return in_memory;
}

void add_files(OffloadStore& store, const Units& units, std::int64_t max_in_cpu) {
  std::vector<std::optional<at::ScalarType>> slices(units.size()), masters(units.size()),
      gradients(units.size());
  const auto in_memory = units_in_memory(units, max_in_cpu);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto& types = units[i]->types();
    const bool has_masters =
        types.master != types.compute || units[i]->spec().master_device != units[i]->spec().device;
    if (!in_memory[i]) slices[i] = types.compute;
    if (has_masters) masters[i] = types.master;
    if (units[i]->is_trainable()) gradients[i] = types.master;
  }
  if (store.keeps(Kind::parameters)) store.add(Kind::parameters, 0, slices);
  if (store.keeps(Kind::masters)) store.add(Kind::masters, 0, masters);
  if (store.keeps(Kind::gradients)) store.add(Kind::gradients, 0, gradients);
}

// The ranks of this machine share its memory.
int ranks_here() {
  return std::max(process_identity().local_world_size, 1);
}

}  // namespace

std::string lack_of_memory(const Units& units, const AvailableMemory& memory, int ranks) {
  std::uint64_t root = 0, largest = 0;
  const Unit* of = nullptr;
  for (const auto& unit : units) {
    const auto gradients = unit->is_trainable()
                               ? static_cast<std::uint64_t>(unit->layout().numel()) *
                                     c10::elementSize(unit->types().reduce)
                               : 0;
    const std::uint64_t bytes = unit->full_bytes() + gradients;
    if (unit->name().empty()) root += unit->full_bytes();
    if (bytes > largest) {
      largest = bytes;
      of = unit.get();
    }
  }
  const std::uint64_t wanted = (root + largest) * static_cast<std::uint64_t>(ranks);
  if (of == nullptr || wanted <= memory.bytes) return {};
  const auto text = [](std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  return "the " + std::to_string(ranks) + " ranks of this machine need " + text(wanted) +
         " of memory and there are " + text(memory.bytes) + " free in " + memory.where +
         ": each uses " + of->describe() + ", which takes " + text(largest) +
         " for its parameters and their gradients, beside the root unit's " + text(root) +
         ". Make smaller modules units (transformer_cls_names_to_wrap, min_num_params), run fewer "
         "ranks on a machine, or give them more memory";
}

std::shared_ptr<OffloadStore> offload_units(Units& units, const ShardGroups& groups,
                                            const ResolvedFsdpOptions& settings) {
  const auto& offload = settings.offload;
  if (offload.parameters_folder.empty() && offload.optimizer_folder.empty()) return nullptr;
  SliceSizes sizes;
  for (const auto& unit : units) sizes.push_back(unit->layout().slice_numel());
  const std::string job = name_of_job(*groups.world);
  std::shared_ptr<OffloadStore> store;
  std::string refusal;
  if (!offload.parameters_folder.empty())
    refusal = lack_of_memory(units, available_memory(), ranks_here());
  refuse_together(*groups.world, refusal);
  try {
    store = OffloadStore::make(OffloadFolders{offload.parameters_folder, offload.optimizer_folder},
                               job, groups.world->rank(), sizes);
    add_files(*store, units, offload.max_in_cpu);
  } catch (const std::exception& error) {
    refusal = describe(error);
  }
  refuse_together(*groups.world, refusal);
  for (std::size_t i = 0; i < units.size(); ++i) {
    units[i]->storage = {store, store->slice(Kind::parameters, 0, i),
                         store->slice(Kind::masters, 0, i), store->slice(Kind::gradients, 0, i)};
  }
  return store;
}

}  // namespace accelerate::detail
