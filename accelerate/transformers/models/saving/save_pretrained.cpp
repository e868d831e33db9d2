// PreTrainedModel::save_pretrained().
#include <algorithm>
#include <map>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/formats/weights/weight_index.h"
#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/models/config/dtype_names.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate {
namespace {

// Returns the configuration to be written: with the class and the type of the weights.
PretrainedConfig saved_config(const PreTrainedModel& model,
                              const std::vector<NamedTensor>& weights) {
  PretrainedConfig config = model.config();
  config.set("architectures", std::vector<std::string>{model.name()});
  const auto floating = std::ranges::find_if(
      weights, [](const NamedTensor& item) { return item.tensor.is_floating_point(); });
  if (floating != weights.end())
    config.set("dtype", std::string(detail::name_of_dtype(floating->tensor.scalar_type())));
  config.erase("torch_dtype");
  return config;
}

// Distributes the tensors over files, and lets the user's function write each file.
void save_by_function(const std::vector<NamedTensor>& weights, const std::filesystem::path& folder,
                      std::uint64_t max_shard_bytes, const SavePretrainedOptions& options) {
  const ShardNames names = weight_names(options.safe_serialization);
  std::vector<ShardItem> items;
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : weights) {
    items.push_back({name, static_cast<std::uint64_t>(tensor.nbytes())});
    by_name.emplace(name, tensor);
  }
  const auto shards = plan_shards(items, max_shard_bytes, names);
  FileSystem& files = real_file_system();
  std::vector<std::string> written;
  for (const WeightShard& shard : shards) {
    std::vector<NamedTensor> tensors;
    for (const std::string& name : shard.names) tensors.push_back({name, by_name.at(name)});
    options.save_function(tensors, folder / shard.file_name);
    written.push_back(shard.file_name);
  }
  if (shards.size() > 1) {
    AtomicFile index(files, folder / names.index_name());
    index.write(weight_index_text(index_of(shards)));
    index.commit();
    written.push_back(names.index_name());
  }
  for (const std::string& name : files.list(folder)) {
    if (names.is_own(name) && std::ranges::find(written, name) == written.end())
      files.remove(folder / name);
  }
}

}  // namespace

void PreTrainedModel::save_config(const std::filesystem::path& folder) const {
  // A view changes nothing; Module has no const access to its children.
  const auto tensors = accelerate::state_dict(view_of(const_cast<PreTrainedModel&>(*this)));
  saved_config(*this, without_duplicates(tensors)).save_pretrained(folder);
  if (generation_config_) generation_config_->save_pretrained(folder, "generation_config.json");
}

void PreTrainedModel::save_pretrained(const std::filesystem::path& folder,
                                      const SavePretrainedOptions& options) const {
  const std::uint64_t max_shard_bytes = parse_shard_size(options.max_shard_size);
  const auto write = [&](const std::vector<NamedTensor>& tensors,
                         const std::function<at::Tensor(const std::string&)>& fetch) {
    if (!options.is_main_process) return;
    const auto once = without_duplicates(tensors);
    saved_config(*this, once).save_pretrained(folder);
    if (generation_config_) generation_config_->save_pretrained(folder, "generation_config.json");
    if (!options.save_function) {
      save_weights(
          PlannedFile{.name = "model", .tensors = once, .fetch = fetch}, folder,
          {.max_shard_bytes = max_shard_bytes, .safe_serialization = options.safe_serialization});
      return;
    }
    std::vector<NamedTensor> whole;
    for (const auto& [name, tensor] : once)
      whole.push_back({name, tensor.is_meta() && fetch ? fetch(name) : tensor.detach()});
    save_by_function(whole, folder, max_shard_bytes, options);
  };
  if (options.state_dict) {
    write(*options.state_dict, {});
  } else if (!with_whole() || !with_whole()(write)) {
    // A view changes nothing; Module has no const access to its children.
    write(accelerate::state_dict(view_of(const_cast<PreTrainedModel&>(*this))), {});
  }
}

}  // namespace accelerate
