#include "accelerate/launch/config/fsdp_plugin.h"

#include <regex>
#include <string_view>
#include <utility>

#include "accelerate/base/logger.h"
#include "accelerate/launch/config/fsdp_readers.h"
#include "accelerate/launch/config/fsdp_strategy.h"
#include "accelerate/launch/config/key_table.h"

namespace accelerate {
namespace {

using detail::flag_or_env;
using detail::number_or_env;
using detail::word_or_env;
using Plugin = FullyShardedDataParallelPlugin;

void warn(const std::string& text) {
  get_logger("accelerate.fsdp").warning(text);
}

int version_of(const Plugin& plugin) {
  const std::int64_t version =
      plugin.fsdp_version ? *plugin.fsdp_version : env_int("FSDP_VERSION").value_or(1);
  if (version == 1 || version == 2) return static_cast<int>(version);
  throw ConfigError((plugin.fsdp_version ? "fsdp_version is " : "FSDP_VERSION is ") +
                    std::to_string(version) + "; allowed are 1 and 2");
}

// --- Units ---------------------------------------------------------------------------------------

std::vector<std::string> class_names(const Plugin& plugin) {
  if (plugin.transformer_cls_names_to_wrap) return *plugin.transformer_cls_names_to_wrap;
  std::vector<std::string> names;
  for (const auto& part : split(env("FSDP_TRANSFORMER_CLS_TO_WRAP").value_or(""), ',')) {
    if (const auto name = trim(part); !name.empty()) names.emplace_back(name);
  }
  return names;
}

void check_expression(const std::string& expression) {
  try {
    (void)std::regex(expression);
  } catch (const std::regex_error& error) {
    throw ConfigError("ignored_modules has '" + expression +
                      "', which is not an ECMAScript regular expression (" + error.what() +
                      "). A plain name is valid; 'encoder\\.layer\\.[01]' matches two modules.");
  }
}

std::vector<std::string> ignored(const Plugin& plugin) {
  std::vector<std::string> expressions;
  if (plugin.ignored_modules) {
    expressions = *plugin.ignored_modules;
  } else if (const auto text = env("FSDP_IGNORED_MODULES")) {
    expressions = {*text};
  }
  for (const auto& expression : expressions) check_expression(expression);
  return expressions;
}

void decide_units(const Plugin& plugin, FsdpSettings& settings) {
  settings.auto_wrap_policy =
      word_or_env(plugin.auto_wrap_policy, "FSDP_AUTO_WRAP_POLICY", AutoWrapPolicy::NO_WRAP);
  if (settings.auto_wrap_policy == AutoWrapPolicy::TRANSFORMER_BASED_WRAP) {
    settings.transformer_cls_names_to_wrap = class_names(plugin);
  }
  if (settings.auto_wrap_policy == AutoWrapPolicy::SIZE_BASED_WRAP) {
    settings.min_num_params = number_or_env<std::int64_t>(plugin.min_num_params, "min_num_params",
                                                          "FSDP_MIN_NUM_PARAMS", 0, 0);
  }
  settings.ignored_modules = ignored(plugin);
}

// --- When and where ------------------------------------------------------------------------------

void decide_prefetch(const Plugin& plugin, FsdpSettings& settings) {
  const auto backward = word_or_env(plugin.backward_prefetch, "FSDP_BACKWARD_PREFETCH",
                                    BackwardPrefetch::NO_PREFETCH, 2);
  if (settings.version == 1) {
    settings.backward_prefetch = backward;
    settings.forward_prefetch = flag_or_env(plugin.forward_prefetch, "FSDP_FORWARD_PREFETCH");
    return;
  }
  if (plugin.forward_prefetch) {
    throw ConfigError(
        "forward_prefetch is set with fsdp_version 2, which has no such choice; leave it out or "
        "set fsdp_version to 1");
  }
  if (parse_bool(env("FSDP_FORWARD_PREFETCH").value_or("")).value_or(false)) {
    warn("fsdp_forward_prefetch has no effect with fsdp_version 2; version 1 has it.");
  }
  if (backward != BackwardPrefetch::NO_PREFETCH) {
    warn("backward_prefetch has no effect with fsdp_version 2, which always gathers ahead.");
  }
  settings.backward_prefetch = BackwardPrefetch::BACKWARD_PRE;
}

// Names what forbids sending rank 0's values to all ranks; "" if nothing does.
std::string refusal_to_sync(const Plugin& plugin) {
  if (plugin.sync_module_states)
    return *plugin.sync_module_states ? "" : "sync_module_states is false";
  const auto text = env("FSDP_SYNC_MODULE_STATES");
  const bool refuses = text && !parse_bool(*text).value_or(true);
  return refuses ? "FSDP_SYNC_MODULE_STATES is '" + *text + "'" : "";
}

void decide_loading(const Plugin& plugin, FsdpSettings& settings) {
  settings.cpu_ram_efficient_loading =
      flag_or_env(plugin.cpu_ram_efficient_loading, "FSDP_CPU_RAM_EFFICIENT_LOADING");
  // Models may have been read before a file of the program said false.
  const bool read_by_default =
      !env("FSDP_CPU_RAM_EFFICIENT_LOADING") && detail::only_rank_zero_loads();
  settings.sync_module_states = settings.cpu_ram_efficient_loading || read_by_default;
  if (settings.version == 1) {
    settings.use_orig_params = flag_or_env(plugin.use_orig_params, "FSDP_USE_ORIG_PARAMS");
    if (!settings.use_orig_params && (plugin.use_orig_params || env("FSDP_USE_ORIG_PARAMS"))) {
      warn(
          "use_orig_params is false, which has no effect: parameters stay the user's in any case, "
          "and nothing is lost by that.");
    }
    const bool sync = flag_or_env(plugin.sync_module_states, "FSDP_SYNC_MODULE_STATES");
    const auto refusal = settings.cpu_ram_efficient_loading ? refusal_to_sync(plugin) : "";
    if (!refusal.empty()) {
      warn(refusal +
           ", but cpu_ram_efficient_loading is on, where only rank 0 has values: they are sent to "
           "all ranks anyway.");
    }
    settings.sync_module_states |= sync;
    return;
  }
  settings.use_orig_params = true;
  if (plugin.use_orig_params) {
    warn("use_orig_params has no effect with fsdp_version 2, which always keeps the parameters.");
  }
  if (plugin.sync_module_states) {
    warn(
        "sync_module_states has no effect with fsdp_version 2: cpu_ram_efficient_loading decides.");
  }
}

void decide_saving(const Plugin& plugin, FsdpSettings& settings) {
  const auto usual =
      settings.version == 1 ? StateDictType::FULL_STATE_DICT : StateDictType::SHARDED_STATE_DICT;
  settings.state_dict_type = word_or_env(plugin.state_dict_type, "FSDP_STATE_DICT_TYPE", usual, 3);
  if (settings.version == 2 && settings.state_dict_type == StateDictType::LOCAL_STATE_DICT) {
    throw ConfigError(
        "state_dict_type is LOCAL_STATE_DICT with fsdp_version 2; allowed are SHARDED_STATE_DICT "
        "and FULL_STATE_DICT (fsdp_state_dict_type in a configuration file)");
  }
}

void refuse_activation_checkpointing(const Plugin& plugin, int version) {
  const bool on = flag_or_env(plugin.activation_checkpointing, "FSDP_ACTIVATION_CHECKPOINTING");
  const bool offload =
      flag_or_env(plugin.activation_checkpointing_offload, "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD");
  if (offload && !on) {
    throw ConfigError(
        "activation_checkpointing_offload is true and activation_checkpointing is not; nothing is "
        "recomputed then. Set both, or leave both out.");
  }
  if (offload && version != 2) {
    throw ConfigError("activation_checkpointing_offload is true with fsdp_version 1; it needs 2");
  }
  if (!on) return;
  throw ConfigError(
      "activation_checkpointing is true, which this version does not have: it neither recomputes "
      "activations by this key nor has a checkpoint() function yet. Set "
      "fsdp_activation_checkpointing "
      "to false; smaller micro-batches with gradient accumulation save activation memory too.");
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

void decide_dtypes(const Plugin& plugin, MixedPrecision mixed_precision, FsdpSettings& settings) {
  const auto policy = policy_of(plugin, mixed_precision, settings.version);
  check_policy(policy, settings.version);
  settings.param_dtype = policy.param_dtype;
  settings.reduce_dtype = policy.reduce_dtype;
  settings.buffer_dtype = policy.buffer_dtype;
  settings.output_dtype = policy.output_dtype;
}

}  // namespace

std::optional<std::string> detail::launched_default(std::string_view variable) {
  if (!use_fsdp()) return std::nullopt;
  for (const auto& key : detail::fsdp_table().keys) {
    const bool is_it =
        key.rules.flag && !key.rules.flag->fallback.empty() && lower(key.name) == lower(variable);
    if (is_it) return key.rules.flag->fallback;
  }
  return std::nullopt;
}

bool detail::only_rank_zero_loads() {
  return use_fsdp() && flag_or_env(std::nullopt, "FSDP_CPU_RAM_EFFICIENT_LOADING");
}

bool use_fsdp() {
  return env_flag("ACCELERATE_USE_FSDP", false);
}

FsdpSettings resolve(const FullyShardedDataParallelPlugin& plugin, MixedPrecision mixed_precision) {
  FsdpSettings settings;
  settings.version = version_of(plugin);
  detail::decide_strategy(plugin, settings);
  decide_units(plugin, settings);
  decide_prefetch(plugin, settings);
  decide_loading(plugin, settings);
  decide_saving(plugin, settings);
  decide_dtypes(plugin, mixed_precision, settings);
  refuse_activation_checkpointing(plugin, settings.version);
  settings.cpu_offload = flag_or_env(plugin.cpu_offload, "FSDP_OFFLOAD_PARAMS");
  settings.limit_all_gathers = plugin.limit_all_gathers;
  return settings;
}

}  // namespace accelerate
