#include "accelerate/parallel/sharded/sharding_plan.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/parallel/sharded/gathered_parameters.h"
#include "accelerate/parallel/sharded/wrap_policy.h"
#include "accelerate/tensor/compat/lent_storage.h"
#include "accelerate/tensor/scalar_type.h"

namespace accelerate::detail {
namespace {

int ranks_of_a_copy(int ranks, const ResolvedFsdpOptions& settings) {
  if (settings.sharding_strategy == ShardingStrategy::NO_SHARD) return 1;
  if (!is_hybrid(settings.sharding_strategy)) return ranks;
  const int asked = settings.shard_group_size > 0 ? settings.shard_group_size : ranks;
  if (asked <= ranks && ranks % asked == 0) return asked;
  throw ConfigError(std::string(to_string(settings.sharding_strategy)) + ": " +
                    std::to_string(ranks) + " ranks cannot be divided into groups of " +
                    std::to_string(asked) +
                    "; shard_group_size must divide the number of ranks; if it is not set, every "
                    "host must have the same number of ranks");
}

std::vector<int> every(int first, int step, int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  for (int& rank : ranks) rank = std::exchange(first, first + step);
  return ranks;
}

// Splits `all` into `count` groups and returns this rank's group. Every rank takes part in making
// every group.
std::shared_ptr<Communicator> split_into(Communicator& all, int count,
                                         const std::function<std::vector<int>(int)>& ranks_of) {
  std::shared_ptr<Communicator> mine;
  for (int i = 0; i < count; ++i) {
    if (auto group = all.split(ranks_of(i))) mine = std::move(group);
  }
  return mine;
}

// --- units ---------------------------------------------------------------------------------------

UnitTypes types_of(const at::Tensor& leaf, const ResolvedFsdpOptions& settings) {
  const at::ScalarType own = leaf.scalar_type();
  if (!c10::isFloatingType(own)) return {own, own, own};
  UnitTypes types{own, own, own};
  const bool mixed = settings.param_dtype || settings.reduce_dtype;
  const bool narrow = own == at::kHalf || own == at::kBFloat16;
  if (mixed && narrow && leaf.requires_grad()) types.master = at::kFloat;
  if (settings.param_dtype) types.compute = to_scalar_type(*settings.param_dtype);
  types.reduce = settings.reduce_dtype  ? to_scalar_type(*settings.reduce_dtype)
                 : settings.param_dtype ? types.compute
                                        : types.master;
  return types;
}

ResolvedFsdpOptions in_full_precision(ResolvedFsdpOptions settings) {
  settings.param_dtype = settings.reduce_dtype = std::nullopt;
  return settings;
}

// Parameters of one kind can lie in one flat memory.
using Kind = std::tuple<at::ScalarType, at::ScalarType, bool>;

Kind kind_of(const at::Tensor& leaf, const UnitTypes& types) {
  return {types.compute, types.master, leaf.requires_grad()};
}

// Returns a unit's name. A wrapped module whose parameters are of several kinds has several units;
// all but the first name their kind.
std::string name_of(const std::string& module, const Kind& kind, bool first) {
  if (first) return module;
  const auto& [compute, master, trained] = kind;
  return module + " (" + std::string(c10::toString(compute)) + (trained ? ")" : ", frozen)");
}

// Throws UsageError when tensors over the same memory fall into different units, which would
// separate them. Decides alike on all ranks, with memory or without.
void refuse_shared_memory(const Units& units) {
  struct Place {
    const Unit* unit;
    std::string name;
  };
  std::map<std::pair<const void*, std::int64_t>, Place> seen;  // By storage and offset.
  for (const auto& unit : units) {
    for (const auto& parameter : unit->parameters) {
      const at::Tensor& leaf = parameter.leaf();
      if (leaf.numel() == 0 || !leaf.has_storage()) continue;
      const auto place =
          seen.emplace(std::pair(leaf.storage().unsafeGetStorageImpl(), leaf.storage_offset()),
                       Place{unit.get(), parameter.name});
      if (place.second) continue;
      throw UsageError("parameters '" + place.first->second.name + "' of " +
                       place.first->second.unit->describe() + " and '" + parameter.name + "' of " +
                       unit->describe() +
                       " are two tensors that share memory. Sharding would separate them. Register "
                       "one tensor under both names. Train or freeze both names alike");
    }
  }
}

void require_shardable(const NamedTensor& leaf, const std::string& class_name) {
  const auto& [name, tensor] = leaf;
  std::string found;
  if (!tensor.is_leaf()) found = "no leaf of autograd";
  if (tensor.layout() != at::kStrided) found = "not dense";
  if (compat::LentStorage::owner_of(tensor) != nullptr) {
    found =
        "sharded already by a model that was prepared before (make module and optimizer again "
        "after free_memory())";
  }
  if (found.empty()) return;
  throw UsageError("parameter '" + name + "' of " + class_name + " is " + found +
                   ", and only dense leaves can be sharded. Keep it in a module that "
                   "ignored_modules names");
}

void require_gathering(const ResolvedFsdpOptions& settings) {
  if (settings.full_parameters == FullParametersHome::shared_pages) {
    throw ConfigError(
        "full_parameters is shared_pages, which keep the whole model in memory, and parameters are "
        "offloaded to disk. Use automatic or gathered");
  }
  if (reshards_after_forward(settings.sharding_strategy)) return;
  throw ConfigError("parameters are offloaded to disk under " +
                    std::string(to_string(settings.sharding_strategy)) +
                    ", which keeps the whole model in memory from forward to backward. Use "
                    "FULL_SHARD or HYBRID_SHARD (ZeRO stage 3)");
}

}  // namespace

ShardGroups make_groups(Communicator& communicator, const ResolvedFsdpOptions& settings) {
  const int ranks = communicator.size();
  const int copy = ranks_of_a_copy(ranks, settings);
  ShardGroups groups;
  groups.world = communicator.split(every(0, 1, ranks));
  if (copy == 1) {
    groups.shard = single_communicator();
  } else {
    groups.shard =
        split_into(communicator, ranks / copy, [&](int i) { return every(i * copy, 1, copy); });
  }
  if (copy == ranks) return groups;
  groups.replicate =
      split_into(communicator, copy, [&](int i) { return every(i, copy, ranks / copy); });
  groups.world->barrier();  // Rank 0 hosts the store of groups that it is not in.
  return groups;
}

Units make_units(const ModuleView& view, const ResolvedFsdpOptions& settings,
                 const UnitPlace& place) {
  const auto leaves = without_duplicates(view.parameters);
  Units units;
  for (const auto& plan : plan_units(view, settings)) {
    const ResolvedFsdpOptions own = plan.full_precision ? in_full_precision(settings) : settings;
    std::vector<std::pair<Kind, UnitSpec>> specs;
    for (const std::size_t i : plan.parameters) {
      require_shardable(leaves[i], view.class_name);
      const auto types = types_of(leaves[i].tensor, own);
      const Kind kind = kind_of(leaves[i].tensor, types);
      auto found = std::ranges::find(specs, kind, &std::pair<Kind, UnitSpec>::first);
      if (found == specs.end()) {
        const auto master_device = settings.cpu_offload ? c10::Device(c10::kCPU) : place.device;
        specs.emplace_back(kind, UnitSpec{name_of(plan.name, kind, specs.empty()),
                                          {},
                                          types,
                                          place.slices,
                                          place.slice,
                                          place.device,
                                          master_device});
        found = std::prev(specs.end());
      }
      found->second.parameters.push_back(leaves[i]);
    }
    for (auto& [kind, spec] : specs) units.push_back(std::make_unique<Unit>(std::move(spec)));
  }
  for (std::size_t i = 0; i < units.size(); ++i) units[i]->index = i;
  refuse_shared_memory(units);
  return units;
}

ChosenParameters choose_full_parameters(const ShardGroups& groups,
                                        const ResolvedFsdpOptions& settings, c10::Device device) {
  const auto wish = settings.full_parameters;
  const bool alone = groups.shard->size() == 1;
  const bool reads_files = !settings.offload.parameters_folder.empty();
  if (reads_files) require_gathering(settings);
  const bool together = device.is_cpu() && !alone && SharedPages::possible(*groups.shard);
  if (wish == FullParametersHome::shared_pages && !together && !alone) {
    throw ConfigError(
        "full_parameters is shared_pages, and the ranks of one copy of the model talk through " +
        std::string(groups.shard->backend()) + " on " + device.str() +
        ": pages need ranks on the CPU of one host that share memory (ACCELERATE_COMM). Use "
        "automatic or gathered");
  }
  if (wish != FullParametersHome::gathered && !reads_files && (alone || together)) {
    return {std::make_unique<ResidentParameters>(groups.shard),
            alone ? "resident" : "shared pages"};
  }
  GatheringOptions options{
      .reshard_after_forward = reshards_after_forward(settings.sharding_strategy),
      .backward_prefetch = settings.backward_prefetch,
      .forward_prefetch = settings.forward_prefetch,
      .rank = groups.world->rank()};
  if (reads_files) {
    options.backward_prefetch = BackwardPrefetch::BACKWARD_PRE;
    options.forward_prefetch = true;
  }
  if (together && !reads_files) {
    return {std::make_unique<GatheredParameters>(one_sided_transport(groups.shard), options),
            "gathered from windows"};
  }
  // Units get a separate group. Gradients travel in the shard group while units are gathered, and
  // the two must not mix.
  auto own = groups.shard->size() == 1 ? single_communicator()
                                       : groups.shard->split(every(0, 1, groups.shard->size()));
  return {std::make_unique<GatheredParameters>(collective_transport(std::move(own)), options),
          reads_files ? "read from files" : "gathered by collectives"};
}

at::Tensor ResidentParameters::allocate(c10::Device device) {
  if (group_->size() == 1) {
    return at::zeros({static_cast<std::int64_t>(bytes_)},
                     at::TensorOptions(at::kByte).device(device));
  }
  pages_ = SharedPages::create(*group_, bytes_);
  return pages_->local();
}

void ResidentParameters::adopt(Units& units) {
  units_ = &units;
  if (units.empty()) return;
  for (const auto& unit : units) bytes_ += round_up(unit->full_bytes(), kUnitAlignment);
  memory_ = allocate(units.front()->spec().device);
  std::size_t at = 0;
  for (auto& unit : units) {
    unit->full.lend(static_cast<std::byte*>(memory_.data_ptr()) + at);
    const auto slice = static_cast<std::size_t>(unit->spec().slice) * unit->slice_bytes();
    unit->set_slice(memory_
                        .narrow(0, static_cast<std::int64_t>(at + slice),
                                static_cast<std::int64_t>(unit->slice_bytes()))
                        .view(unit->types().compute));
    at += round_up(unit->full_bytes(), kUnitAlignment);
  }
}

void ResidentParameters::end_update(std::int64_t) {
  for (auto& unit : *units_) unit->publish();
  group_->barrier();
}

}  // namespace accelerate::detail
