#include "accelerate/checkpoint/model_weights.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <memory>
#include <set>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/checkpoint/weight_files.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/formats/weights/weight_index.h"
#include "accelerate/tensor/compat/materialise.h"
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

// The tensors of the model under each of their names, in their order.
struct Slot {
  at::Tensor tensor;
  std::vector<std::string> names;
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
  return slots;
}

const ByName::value_type* found(const ByName& weights, const Slot& slot) {
  for (const auto& name : slot.names) {
    if (const auto entry = weights.find(name); entry != weights.end()) return &*entry;
  }
  return nullptr;
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
      report.missing.push_back(slot.names.front());
    } else if (weight->second.sizes() != slot.tensor.sizes()) {
      report.mismatched.push_back(slot.names.front() + ": " + StateDict(weight->second).describe() +
                                  " there, " + StateDict(slot.tensor).describe() + " in the model");
    } else {
      visit(slot.tensor, *weight);  // Name and tensor.
    }
  }
  for (const auto& [name, tensor] : by_name)
    if (!known.contains(name)) report.unexpected.push_back(name);
  return report;
}

// One without memory gets it, on the CPU and of its own: `from` may lie in a mapped file.
void fill(const at::Tensor& to, const at::Tensor& from) {
  if (to.is_meta()) {
    compat::materialise_(to, from.to(to.options().device(at::kCPU), /*non_blocking=*/false,
                                     /*copy=*/true));
  } else {
    to.copy_(from);
  }
}

// The shards in a folder that has no weights in any other layout.
std::vector<std::filesystem::path> shards_at(const std::filesystem::path& folder) {
  auto& files = real_file_system();
  if (files.status(folder).kind != FileKind::directory) return {};
  const ShardNames names;
  for (const auto& name : {names.file_name(1, 1), names.index_name()})
    if (files.status(folder / name).kind != FileKind::none) return {};
  return shard_files_in(folder, names.stem, files);
}

}  // namespace

std::string WeightsReport::describe() const {
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back("missing: " + cut_short(missing));
  if (!unexpected.empty()) parts.push_back("unexpected: " + cut_short(unexpected));
  if (!mismatched.empty()) parts.push_back("of another shape: " + cut_short(mismatched));
  return join(parts, "; ");
}

WeightsReport compare_weights(const ModuleView& model, const std::vector<NamedTensor>& weights) {
  return walk(model, weights, [](const at::Tensor&, const ByName::value_type&) {});
}

WeightsReport load_checkpoint_in_model(const ModuleView& model,
                                       const std::filesystem::path& checkpoint,
                                       const LoadWeightsOptions& options) {
  std::vector<NamedTensor> weights;
  std::function<at::Tensor(const std::string& name)> read;
  if (const auto shards = shards_at(checkpoint); !shards.empty()) {
    const auto stored =
        std::make_shared<ShardedTensors>(ShardNames().stem, ShardCatalogue::open(shards));
    weights = stored->outlines();
    read = [stored](const std::string& name) { return stored->read(name); };
  } else {
    weights = map_weights(checkpoint);
  }
  if (options.strict) {
    if (const auto report = compare_weights(model, weights); !report.fits())
      throw CheckpointError("the weights at " + checkpoint.string() + " do not fit the model " +
                            model.class_name + ": " + report.describe() +
                            ". With strict = false what fits is loaded.");
  }
  return read ? copy_weights(model, weights, read) : copy_weights(model, weights);
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

WeightsReport copy_weights(const ModuleView& model, const std::vector<NamedTensor>& weights) {
  const at::NoGradGuard no_grad;
  return walk(model, weights,
              [](const at::Tensor& to, const ByName::value_type& from) { fill(to, from.second); });
}

WeightsReport copy_weights(const ModuleView& model, const std::vector<NamedTensor>& outlines,
                           const std::function<at::Tensor(const std::string& name)>& read) {
  const at::NoGradGuard no_grad;
  return walk(model, outlines, [&](const at::Tensor& to, const ByName::value_type& from) {
    fill(to, read(from.first));
  });
}

}  // namespace accelerate
