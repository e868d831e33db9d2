#include "accelerate/checkpoint/model_weights.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/shards/deepspeed_checkpoint.h"
#include "accelerate/formats/shards/fsdp_files.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/formats/weights/weight_index.h"
#include "accelerate/tensor/compat/leaf_memory.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/scalar_type.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {
namespace {

std::string cut_short(std::vector<std::string> names) {
  constexpr std::size_t kShown = 8;
  const std::size_t all = names.size();
  if (all > kShown) {
    names.resize(kShown);
    names.push_back("… (" + std::to_string(all) + " in all)");
  }
  return join(names, ", ");
}

using ByName = std::map<std::string, at::Tensor>;

// A tensor of the model and all its names, in the model's order.
struct Slot {
  at::Tensor tensor;
  std::vector<std::string> names;
  bool is_parameter = false;
};

std::vector<Slot> slots_of(const ModuleView& model) {
  std::vector<Slot> slots;
  std::map<const at::TensorImpl*, std::size_t> places;
  for (const auto& [name, tensor] : state_dict(model)) {
    if (!tensor.defined()) continue;
    const auto [place, fresh] = places.emplace(tensor.unsafeGetTensorImpl(), slots.size());
    if (fresh) slots.push_back({tensor, {}});
    slots[place->second].names.push_back(name);
  }
  for (const auto& [_, tensor] : model.parameters) {
    const auto place = tensor.defined() ? places.find(tensor.unsafeGetTensorImpl()) : places.end();
    if (place != places.end()) slots[place->second].is_parameter = true;
  }
  return slots;
}

const ByName::value_type* found(const ByName& weights, const Slot& slot) {
  for (const auto& name : slot.names) {
    if (const auto entry = weights.find(name); entry != weights.end()) return &*entry;
  }
  return nullptr;
}

// Python's writer of safetensors drops empty tensors. All have the address 0, so it takes them for
// one tensor with many names.
bool may_be_absent(const ModuleView& model, const Slot& slot) {
  return slot.tensor.numel() == 0 ||
         detail::is_unsaved_buffer(model, {slot.names.front(), slot.tensor});
}

template <typename Visit>
WeightsReport walk(const ModuleView& model, const std::vector<NamedTensor>& weights,
                   const Visit& visit) {
  WeightsReport report;
  ByName by_name;
  for (const auto& [name, tensor] : weights) by_name.emplace(name, tensor);
  std::set<std::string> known;
  for (const auto& slot : slots_of(model)) {
    known.insert(slot.names.begin(), slot.names.end());
    const auto* weight = found(by_name, slot);
    if (weight == nullptr) {
      if (!may_be_absent(model, slot)) report.missing.push_back(slot.names.front());
    } else if (weight->second.sizes() != slot.tensor.sizes()) {
      report.mismatched.push_back(slot.names.front() + ": " + StateDict(weight->second).describe() +
                                  " there, " + StateDict(slot.tensor).describe() + " in the model");
    } else if (slot.is_parameter &&  // Module::to(dtype) converts counters in buffers.
               !are_of_one_kind(weight->second.scalar_type(), slot.tensor.scalar_type())) {
      report.mistyped.push_back(slot.names.front() + ": " +
                                python_name(weight->second.scalar_type()) + " there, " +
                                python_name(slot.tensor.scalar_type()) + " in the model");
    } else {
      visit(slot.tensor, *weight);  // Name and tensor.
    }
  }
  for (const auto& [name, tensor] : by_name)
    if (!known.contains(name)) report.unexpected.push_back(name);
  return report;
}

// Gives tensors their values. A tensor without memory gets new memory on the CPU, since what is
// read may lie in a mapped file. Two such tensors that viewed the same memory share it again.
class Filled {
 public:
  void fill(const at::Tensor& to, const at::Tensor& from) {
    if (to.is_meta() && !share(to)) {
      compat::materialise_(to, from.to(to.options().device(at::kCPU), /*non_blocking=*/false,
                                       /*copy=*/true));
    } else {
      to.copy_(from);
    }
  }

 private:
  struct First {
    at::Storage before;  // Keeps its address from being reused.
    at::Tensor tensor;
  };

  // Shares the memory of a tensor that was already filled, if there is one.
  bool share(const at::Tensor& to) {
    if (to.numel() == 0) return false;
    const Place place(to.storage().unsafeGetStorageImpl(), to.storage_offset(), to.sizes().vec(),
                      to.strides().vec());
    const auto [first, is_new] = firsts_.emplace(place, First{to.storage(), to});
    if (!is_new) compat::materialise_(to, first->second.tensor);
    return !is_new;
  }

  using Place = std::tuple<const void*, std::int64_t, std::vector<std::int64_t>,
                           std::vector<std::int64_t>>;  // Storage, offset, sizes, strides.
  std::map<Place, First> firsts_;
};

// Returns the shards in a folder that has no weights in any other layout.
std::vector<std::filesystem::path> shards_at(const std::filesystem::path& folder,
                                             FileSystem& files) {
  if (files.status(folder).kind != FileKind::directory) return {};
  const ShardNames names;
  for (const auto& name : {names.file_name(1, 1), names.index_name()})
    if (files.status(folder / name).kind != FileKind::none) return {};
  return shard_files_in(folder, names.stem, files);
}

// Returns the weights that FSDP or DeepSpeed of Python saved, in a folder that has no weights in any
// other layout; nullopt if there are none.
std::optional<ShardCatalogue> spread_weights_at(const std::filesystem::path& folder,
                                                FileSystem& files) {
  if (files.status(folder).kind != FileKind::directory) return std::nullopt;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json"})
    if (files.status(folder / name).kind != FileKind::none) return std::nullopt;
  if (is_distcp(folder, files)) return open_fsdp_model({FsdpFiles::Form::distcp, {folder}}, files);
  const auto found = fsdp_files_in(folder, kFsdpModel, 0, files);
  if (found) return open_fsdp_model(*found, files);
  if (holds_deepspeed(files, folder)) return DeepSpeedCheckpoint::open(folder, {}, files).weights();
  return std::nullopt;
}

}  // namespace

WeightReader weights_at(const std::filesystem::path& checkpoint, FileSystem& files) {
  const auto open = [](ShardCatalogue catalogue) {
    return reader_of(std::make_shared<ShardedTensors>(ShardNames().stem, std::move(catalogue)));
  };
  if (auto weights = spread_weights_at(checkpoint, files)) return open(std::move(*weights));
  const auto shards = shards_at(checkpoint, files);
  if (shards.empty()) return map_weights(checkpoint, files);
  return open(ShardCatalogue::open(shards, files));
}

std::string WeightsReport::describe() const {
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back("missing: " + cut_short(missing));
  if (!unexpected.empty()) parts.push_back("unexpected: " + cut_short(unexpected));
  if (!mismatched.empty()) parts.push_back("of another shape: " + cut_short(mismatched));
  if (!mistyped.empty()) parts.push_back("of another kind of number: " + cut_short(mistyped));
  return join(parts, "; ");
}

WeightsReport compare_weights(const ModuleView& model, const std::vector<NamedTensor>& weights) {
  return walk(model, weights, [](const at::Tensor&, const ByName::value_type&) {});
}

WeightsReport load_checkpoint_in_model(const ModuleView& model,
                                       const std::filesystem::path& checkpoint,
                                       const LoadWeightsOptions& options) {
  const auto weights = weights_at(checkpoint);
  if (options.strict) {
    if (const auto report = compare_weights(model, weights.outlines); !report.fits())
      throw CheckpointError("the weights at " + checkpoint.string() + " do not fit the model " +
                                model.class_name + ": " + report.describe() +
                                ". With strict = false what fits is loaded.",
                            error_name::kOtherModel);
  }
  return copy_weights(model, weights);
}

WeightsReport load_checkpoint_in_model(torch::nn::Module& model,
                                       const std::filesystem::path& checkpoint,
                                       const LoadWeightsOptions& options) {
  return load_checkpoint_in_model(view_of(model), checkpoint, options);
}

WeightsReport load_checkpoint_in_model(torch::jit::Module& model,
                                       const std::filesystem::path& checkpoint,
                                       const LoadWeightsOptions& options) {
  return load_checkpoint_in_model(view_of(model), checkpoint, options);
}

WeightReader reader_of(const std::shared_ptr<const ShardedTensors>& stored) {
  return {stored->outlines(), [stored](const std::string& name) { return stored->read(name); },
          [stored](const std::string& name, std::int64_t begin, std::int64_t numel) {
            return stored->load_range(name, begin, numel);
          }};
}

WeightsReport copy_weights(const ModuleView& model, const WeightReader& weights,
                           const std::vector<NamedShard>& shards) {
  const at::NoGradGuard no_grad;
  const auto parts = shards_by_leaf(model, shards);
  Filled filled;
  return walk(model, weights.outlines, [&](const at::Tensor& to, const ByName::value_type& from) {
    const auto part = parts.find(to.unsafeGetTensorImpl());
    if (part == parts.end()) {
      filled.fill(to, weights.read(from.first));
    } else if (const auto& [name, local, begin, shape] = *part->second; local.numel() > 0) {
      at::Tensor elements = local;
      elements.copy_(weights.read_range(from.first, begin, local.numel()));
    }
  });
}

std::map<const at::TensorImpl*, const NamedShard*> shards_by_leaf(
    const ModuleView& model, const std::vector<NamedShard>& shards) {
  std::map<std::string, const NamedShard*> by_name;
  for (const auto& shard : shards) by_name.emplace(shard.name, &shard);
  std::map<const at::TensorImpl*, const NamedShard*> by_leaf;
  for (const auto& [name, leaf] : model.parameters) {
    const auto shard = by_name.find(name);
    if (shard != by_name.end()) by_leaf.emplace(leaf.unsafeGetTensorImpl(), shard->second);
  }
  return by_leaf;
}

}  // namespace accelerate
