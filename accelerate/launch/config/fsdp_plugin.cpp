#include "accelerate/launch/config/fsdp_plugin.h"

#include <regex>
#include <string>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/key_table.h"

namespace accelerate {
namespace {

using Plugin = FullyShardedDataParallelPlugin;

void warn(const std::string& text) {
  get_logger("accelerate.fsdp").warning(text);
}

// --- Who says it ---------------------------------------------------------------------------------

// What the program says, and what the launcher says where the program says nothing.
struct Said {
  const Plugin& program;
  const Plugin& launcher;

  template <typename T>
  [[nodiscard]] std::optional<T> operator()(std::optional<T> Plugin::* field) const {
    return program.*field ? program.*field : launcher.*field;
  }
  [[nodiscard]] bool is_on(std::optional<bool> Plugin::* field) const {
    return (*this)(field).value_or(false);
  }
};

// Returns the text that a launcher which shards gives to the key; nullopt if it says nothing.
std::optional<std::string> launched_text(const detail::Key<Plugin>& key) {
  if (const auto text = env(detail::variable_of(key).c_str())) return text;
  const bool has_default = key.rules.flag && !key.rules.flag->fallback.empty();
  return has_default && use_fsdp() ? std::optional(key.rules.flag->fallback) : std::nullopt;
}

int version_of(const Said& said) {
  const int version = said(&Plugin::fsdp_version).value_or(1);
  if (version == 1 || version == 2) return version;
  throw ConfigError("fsdp_version is " + std::to_string(version) + "; allowed are 1 and 2");
}

// --- Units ---------------------------------------------------------------------------------------

void check_expression(const std::string& expression) {
  try {
    (void)std::regex(expression);
  } catch (const std::regex_error& error) {
    throw ConfigError("ignored_modules has '" + expression +
                      "', which is not an ECMAScript regular expression (" + error.what() +
                      "). A plain name is valid; 'encoder\\.layer\\.[01]' matches two modules.");
  }
}

std::int64_t least_unit(const Said& said) {
  const std::int64_t least = said(&Plugin::min_num_params).value_or(0);
  if (least >= 0) return least;
  throw ConfigError("min_num_params is " + std::to_string(least) + "; allowed is 0 or more");
}

void decide_units(const Said& said, ResolvedFsdpOptions& settings) {
  settings.auto_wrap_policy = said(&Plugin::auto_wrap_policy).value_or(AutoWrapPolicy::NO_WRAP);
  if (settings.auto_wrap_policy == AutoWrapPolicy::TRANSFORMER_BASED_WRAP)
    settings.transformer_cls_names_to_wrap =
        said(&Plugin::transformer_cls_names_to_wrap).value_or(std::vector<std::string>());
  if (settings.auto_wrap_policy == AutoWrapPolicy::SIZE_BASED_WRAP)
    settings.min_num_params = least_unit(said);
  settings.ignored_modules = said(&Plugin::ignored_modules).value_or(std::vector<std::string>());
  for (const auto& expression : settings.ignored_modules) check_expression(expression);
}

// --- When and where ------------------------------------------------------------------------------

void decide_prefetch(const Said& said, ResolvedFsdpOptions& settings) {
  const BackwardPrefetch backward =
      said(&Plugin::backward_prefetch).value_or(BackwardPrefetch::NO_PREFETCH);
  if (settings.version == 1) {
    settings.backward_prefetch = backward;
    settings.forward_prefetch = said.is_on(&Plugin::forward_prefetch);
    return;
  }
  if (said.program.forward_prefetch) {
    throw ConfigError(
        "forward_prefetch is set with fsdp_version 2, which has no such choice; leave it out or "
        "set fsdp_version to 1");
  }
  if (said.is_on(&Plugin::forward_prefetch)) {
    warn("fsdp_forward_prefetch has no effect with fsdp_version 2; version 1 has it.");
  }
  if (backward != BackwardPrefetch::NO_PREFETCH) {
    warn("backward_prefetch has no effect with fsdp_version 2, which always gathers ahead.");
  }
  settings.backward_prefetch = BackwardPrefetch::BACKWARD_PRE;
}

void warn_of_refusal_to_sync(const Said& said) {
  if (said(&Plugin::sync_module_states).value_or(true)) return;
  warn(std::string(said.program.sync_module_states ? "sync_module_states"
                                                   : "FSDP_SYNC_MODULE_STATES") +
       " is false, but cpu_ram_efficient_loading is on, where only rank 0 has values: they are "
       "sent to all ranks anyway.");
}

void decide_loading(const Said& said, ResolvedFsdpOptions& settings) {
  settings.cpu_ram_efficient_loading = said.is_on(&Plugin::cpu_ram_efficient_loading);
  // Models may have been read before a file of the program said false.
  const bool read_by_default = !env("FSDP_CPU_RAM_EFFICIENT_LOADING") && only_rank_zero_loads();
  settings.sync_module_states = settings.cpu_ram_efficient_loading || read_by_default;
  if (settings.version == 1) {
    settings.use_orig_params = said.is_on(&Plugin::use_orig_params);
    if (said(&Plugin::use_orig_params) == false) {
      warn(
          "use_orig_params is false, which has no effect: parameters stay the user's in any case, "
          "and nothing is lost by that.");
    }
    if (settings.cpu_ram_efficient_loading) warn_of_refusal_to_sync(said);
    settings.sync_module_states |= said.is_on(&Plugin::sync_module_states);
    return;
  }
  settings.use_orig_params = true;
  if (said.program.use_orig_params) {
    warn("use_orig_params has no effect with fsdp_version 2, which always keeps the parameters.");
  }
  if (said.program.sync_module_states) {
    warn(
        "sync_module_states has no effect with fsdp_version 2: cpu_ram_efficient_loading decides.");
  }
}

void decide_saving(const Said& said, ResolvedFsdpOptions& settings) {
  const auto usual =
      settings.version == 1 ? StateDictType::FULL_STATE_DICT : StateDictType::SHARDED_STATE_DICT;
  settings.state_dict_type = said(&Plugin::state_dict_type).value_or(usual);
  if (settings.version == 2 && settings.state_dict_type == StateDictType::LOCAL_STATE_DICT) {
    throw ConfigError(
        "state_dict_type is LOCAL_STATE_DICT with fsdp_version 2; allowed are SHARDED_STATE_DICT "
        "and FULL_STATE_DICT (fsdp_state_dict_type in a configuration file)");
  }
}

void decide_checkpointing(const Said& said, ResolvedFsdpOptions& settings) {
  settings.activation_checkpointing = said.is_on(&Plugin::activation_checkpointing);
  settings.activation_checkpointing_offload = said.is_on(&Plugin::activation_checkpointing_offload);
  if (!settings.activation_checkpointing_offload) return;
  if (!settings.activation_checkpointing) {
    throw ConfigError(
        "activation_checkpointing_offload is true and activation_checkpointing is not; nothing is "
        "recomputed then. Set both, or leave both out.");
  }
  if (settings.version != 2) {
    throw ConfigError("activation_checkpointing_offload is true with fsdp_version 1; it needs 2");
  }
}

// --- Element types -------------------------------------------------------------------------------

MixedPrecisionPolicy all_of(DType dtype, int version) {
  MixedPrecisionPolicy policy{.param_dtype = dtype, .reduce_dtype = dtype};
  (version == 1 ? policy.buffer_dtype : policy.output_dtype) = dtype;
  return policy;
}

MixedPrecisionPolicy policy_of_word(const std::string& word, int version) {
  if (word == "fp16") return all_of(DType::f16, version);
  if (word == "bf16" || word == "fp8") return all_of(DType::bf16, version);
  if (word == "fp32") return all_of(DType::f32, version);
  throw ConfigError("mixed_precision_policy is '" + word +
                    "'; allowed are fp8, fp16, bf16 and fp32, or the types one by one." +
                    did_you_mean(word, {"fp8", "fp16", "bf16", "fp32"}));
}

void check_dtype(const char* field, const std::optional<DType>& dtype) {
  if (!dtype || *dtype == DType::f16 || *dtype == DType::bf16 || *dtype == DType::f32) return;
  throw ConfigError("mixed_precision_policy." + std::string(field) + " is " +
                    std::string(dtype_name(*dtype)) + "; allowed are F16, BF16 and F32");
}

void check_policy(const MixedPrecisionPolicy& policy, int version) {
  check_dtype("param_dtype", policy.param_dtype);
  check_dtype("reduce_dtype", policy.reduce_dtype);
  check_dtype("buffer_dtype", policy.buffer_dtype);
  check_dtype("output_dtype", policy.output_dtype);
  if (version == 1 && policy.output_dtype) {
    throw ConfigError(
        "mixed_precision_policy.output_dtype is set with fsdp_version 1, which returns what the "
        "model returns; leave it out or set fsdp_version to 2");
  }
  if (version == 2 && policy.buffer_dtype) {
    throw ConfigError(
        "mixed_precision_policy.buffer_dtype is set with fsdp_version 2, which leaves buffers as "
        "they are; leave it out or set fsdp_version to 1");
  }
}

MixedPrecisionPolicy policy_of(const Plugin& plugin, MixedPrecision mixed_precision, int version) {
  if (!plugin.mixed_precision_policy) {
    if (mixed_precision == MixedPrecision::no) return {};
    return policy_of_word(std::string(to_string(mixed_precision)), version);
  }
  if (const auto* word = std::get_if<std::string>(&*plugin.mixed_precision_policy)) {
    return policy_of_word(*word, version);
  }
  return std::get<MixedPrecisionPolicy>(*plugin.mixed_precision_policy);
}

void decide_dtypes(const Plugin& plugin, MixedPrecision mixed_precision,
                   ResolvedFsdpOptions& settings) {
  const auto policy = policy_of(plugin, mixed_precision, settings.version);
  check_policy(policy, settings.version);
  settings.param_dtype = policy.param_dtype;
  settings.reduce_dtype = policy.reduce_dtype;
  settings.buffer_dtype = policy.buffer_dtype;
  settings.output_dtype = policy.output_dtype;
}

}  // namespace

bool use_fsdp() {
  return env_flag("ACCELERATE_USE_FSDP", false);
}

bool only_rank_zero_loads() {
  return use_fsdp() && env_flag("FSDP_CPU_RAM_EFFICIENT_LOADING", true);
}

Plugin launched_fsdp_plugin() {
  Plugin plugin;
  for (const auto& key : detail::fsdp_table().keys) {
    if (const auto text = launched_text(key))
      detail::read_text(plugin, key, *text, detail::variable_of(key));
  }
  return plugin;
}

ResolvedFsdpOptions resolve(const FullyShardedDataParallelPlugin& plugin,
                            MixedPrecision mixed_precision) {
  const Plugin launcher = launched_fsdp_plugin();
  const Said said{plugin, launcher};
  ResolvedFsdpOptions settings;
  settings.version = version_of(said);
  detail::decide_strategy(plugin, launcher, settings);
  decide_units(said, settings);
  decide_prefetch(said, settings);
  decide_loading(said, settings);
  decide_saving(said, settings);
  decide_dtypes(plugin, mixed_precision, settings);
  decide_checkpointing(said, settings);
  settings.offload = plugin.disk_offload.value_or(DiskOffload{});
  if (settings.offload.max_in_cpu < 0) {
    throw ConfigError("disk_offload.max_in_cpu is " + std::to_string(settings.offload.max_in_cpu) +
                      "; allowed are numbers of bytes from 0 on");
  }
  // What is written to files comes from memory of the CPU.
  settings.cpu_offload = said.is_on(&Plugin::cpu_offload) ||
                         !settings.offload.parameters_folder.empty() ||
                         !settings.offload.optimizer_folder.empty();
  settings.limit_all_gathers = plugin.limit_all_gathers;
  return settings;
}

}  // namespace accelerate
