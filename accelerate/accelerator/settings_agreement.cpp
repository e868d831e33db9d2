#include "accelerate/accelerator/settings_agreement.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/operations.h"

namespace accelerate::detail {
namespace {

constexpr const char* kAbsent = "not set";

std::string text_of(DDPCommunicationHookType hook) {
  constexpr const char* kWords[] = {"no", "fp16", "bf16", "power_sgd", "batched_power_sgd"};
  return kWords[static_cast<std::size_t>(hook)];
}

using Values = std::map<std::string, std::string>;

Values values_in(const std::string& text) {
  Values values;
  for (const auto& line : split(text, '\n')) {
    const auto tab = line.find('\t');
    if (tab != std::string::npos) values.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
  return values;
}

std::string value_of(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? kAbsent : found->second;
}

// Returns "\n  mixed_precision: bf16 on rank 0, no on rank 2" for each setting that differs. Names
// the first rank that differs from rank 0.
std::string differences(const std::vector<std::string>& texts) {
  std::vector<Values> all;
  Values names;
  for (const auto& text : texts) {
    all.push_back(values_in(text));
    names.insert(all.back().begin(), all.back().end());
  }
  std::string found;
  for (const auto& [name, any] : names) {
    const std::string first = value_of(all.front(), name);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      const std::string other = value_of(all[rank], name);
      if (other == first) continue;
      found += "\n  " + name + ": " + first + " on rank 0, " + other + " on rank " +
               std::to_string(rank);
      break;
    }
  }
  return found;
}

}  // namespace

std::string text_of(double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

void SettingsAgreement::add(const std::string& name, const std::string& value) {
  std::string line = name + '\t' + (value.empty() ? kAbsent : value);
  std::ranges::replace(line, '\n', ' ');
  text_ += line + '\n';
}

void SettingsAgreement::add(const std::string& name, double value) {
  add(name, text_of(value));
}

void SettingsAgreement::add(const std::string& name, const std::optional<bool>& value) {
  if (value) {
    add(name, *value);
  } else {
    add(name, kAbsent);
  }
}

void SettingsAgreement::add(const GradientAccumulationPlugin& accumulation) {
  add("gradient_accumulation_steps", accumulation.num_steps);
  add("gradient_accumulation_plugin.adjust_scheduler", accumulation.adjust_scheduler);
  add("gradient_accumulation_plugin.sync_with_dataloader", accumulation.sync_with_dataloader);
  add("gradient_accumulation_plugin.sync_each_batch", accumulation.sync_each_batch);
}

void SettingsAgreement::add(const DataLoaderConfiguration& config) {
  add("dataloader_config.split_batches", config.split_batches);
  add("dataloader_config.dispatch_batches", config.dispatch_batches);
  add("dataloader_config.even_batches", config.even_batches);
  add("dataloader_config.use_seedable_sampler", config.use_seedable_sampler);
  add("dataloader_config.data_seed", config.data_seed ? std::to_string(*config.data_seed) : "");
}

void SettingsAgreement::add(const DistributedDataParallelKwargs& ddp) {
  add("ddp.broadcast_buffers", ddp.broadcast_buffers);
  add("ddp.bucket_cap_mb", ddp.bucket_cap_mb);
  add("ddp.find_unused_parameters", ddp.find_unused_parameters);
  add("ddp.static_graph", ddp.static_graph);
  add("ddp.comm_hook", text_of(ddp.comm_hook));
  add("ddp.comm_wrapper", text_of(ddp.comm_wrapper));
  const PowerSGDOptions& state = ddp.comm_state_option;
  const std::string name = "ddp.comm_state_option.";
  add(name + "matrix_approximation_rank", std::to_string(state.matrix_approximation_rank));
  add(name + "start_powerSGD_iter", std::to_string(state.start_powerSGD_iter));
  add(name + "min_compression_rate", state.min_compression_rate);
  add(name + "use_error_feedback", state.use_error_feedback);
  add(name + "warm_start", state.warm_start);
  add(name + "orthogonalization_epsilon", state.orthogonalization_epsilon);
  add(name + "random_seed", std::to_string(state.random_seed));
  add(name + "batch_tensors_with_same_shape", state.batch_tensors_with_same_shape);
}

void SettingsAgreement::add(const ResolvedFsdpOptions& fsdp) {
  const std::string name = "fsdp_plugin.";
  const auto type = [](const std::optional<DType>& dtype) {
    return dtype ? std::string(dtype_name(*dtype)) : "";
  };
  add(name + "sharding_strategy", std::string(to_string(fsdp.sharding_strategy)));
  add(name + "fsdp_version", fsdp.version);
  add(name + "shard_group_size", fsdp.shard_group_size);
  add(name + "full_parameters", std::string(to_string(fsdp.full_parameters)));
  add(name + "auto_wrap_policy", std::string(to_string(fsdp.auto_wrap_policy)));
  add(name + "transformer_cls_names_to_wrap", join(fsdp.transformer_cls_names_to_wrap, "|"));
  add(name + "min_num_params", std::to_string(fsdp.min_num_params));
  add(name + "ignored_modules", join(fsdp.ignored_modules, "|"));
  add(name + "param_dtype", type(fsdp.param_dtype));
  add(name + "reduce_dtype", type(fsdp.reduce_dtype));
  add(name + "buffer_dtype", type(fsdp.buffer_dtype));
  add(name + "backward_prefetch", std::string(to_string(fsdp.backward_prefetch)));
  add(name + "forward_prefetch", fsdp.forward_prefetch);
  add(name + "sync_module_states", fsdp.sync_module_states);
  add(name + "offload_params", fsdp.cpu_offload);
  add(name + "disk_offload.parameters_folder", fsdp.offload.parameters_folder);
  add(name + "disk_offload.optimizer_folder", fsdp.offload.optimizer_folder);
  add(name + "disk_offload.max_in_cpu", std::to_string(fsdp.offload.max_in_cpu));
  add(name + "state_dict_type", std::string(to_string(fsdp.state_dict_type)));
}

void SettingsAgreement::add(const GradScalerKwargs& scaler) {
  add("grad_scaler.enabled", scaler.enabled);
  add("grad_scaler.init_scale", scaler.init_scale);
  add("grad_scaler.growth_factor", scaler.growth_factor);
  add("grad_scaler.backoff_factor", scaler.backoff_factor);
  add("grad_scaler.growth_interval", std::to_string(scaler.growth_interval));
  add("grad_scaler.dynamic", scaler.dynamic);
  add("grad_scaler.min_scale", scaler.min_scale);
  add("grad_scaler.hysteresis", std::to_string(scaler.hysteresis));
}

// Does not compare the number of samples if only rank 0 reads the dataset, or if it is a stream.
void SettingsAgreement::add(const std::string& name, const LoaderPlan& loader) {
  const DataLoaderOptions& options = loader.options();
  const bool own = static_cast<bool>(options.batch_sampler);
  add(name + "batch_size", own ? "by a batch_sampler" : std::to_string(options.batch_size));
  add(name + "shuffle", options.shuffle);
  add(name + "drop_last", options.drop_last);
  add(name + "data_seed", options.data_seed ? std::to_string(*options.data_seed) : "");
  add(name + "dispatch_batches", loader.dispatches());
  add(name + "split_batches", loader.shard().split_batches);
  add(name + "even_batches", loader.shard().even_batches);
  if (loader.dispatches() || loader.iterable() || !loader.samples()) return;
  add(name + "samples of the dataset", std::to_string(*loader.samples()));
}

void SettingsAgreement::require_same(Communicator& ranks, const std::string& where) const {
  const std::string head = where + " with the settings\n";
  const auto texts = texts_that_differ(ranks, head + text_);
  if (texts.empty()) return;
  const auto is_here = [&](const std::string& text) { return text.starts_with(head); };
  if (!std::ranges::all_of(texts, is_here)) throw_disagreement(where, texts);
  throw ConfigError(where + ": these settings differ between ranks:" + differences(texts) +
                        "\nEach rank would train in another way. Give all ranks equal settings",
                    error_name::kSettingsDiffer);
}

}  // namespace accelerate::detail
