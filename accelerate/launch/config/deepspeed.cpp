#include "accelerate/launch/config/deepspeed.h"

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/key_table.h"

namespace accelerate {
namespace {

constexpr std::int64_t kLeastUnit = 1'000'000;  // 2 MB in 16 bits: enough for full bandwidth

bool is_said(const std::optional<std::string>& value) {
  return value && lower(*value) != "none" && lower(*value) != "auto";
}

void warn_of_what_has_no_effect(const DeepSpeedConfig& config, MixedPrecision mixed_precision) {
  const Logger log = get_logger("accelerate.deepspeed");
  if (config.zero3_init_flag.value_or(false)) {
    log.warning(
        "zero3_init_flag is true, which alone changes nothing here: build the model under "
        "accelerate::init_empty_weights(), and no rank ever holds it whole.");
  }
  if (config.zero3_save_16bit_model.value_or(false) && mixed_precision != MixedPrecision::no) {
    log.warning(
        "zero3_save_16bit_model is true and has no effect: save_model() and get_state_dict() work "
        "at every stage, in fp32 where the optimizer has fp32 masters. For files of 16 bits "
        "cast what get_state_dict() returns, and hand it to save().");
  }
}

enum class OffloadDevice { none, cpu, nvme };

OffloadDevice device_of(const char* key, const std::optional<std::string>& device) {
  if (!is_said(device)) return OffloadDevice::none;
  if (lower(*device) == "cpu") return OffloadDevice::cpu;
  if (lower(*device) == "nvme") return OffloadDevice::nvme;
  throw ConfigError(std::string(key) + " is '" + *device + "'; allowed are none, cpu and nvme");
}

// Returns the folder for what `device` puts on disk; "" if it puts nothing there.
std::string folder_of(const char* key, OffloadDevice device,
                      const std::optional<std::string>& folder) {
  const std::string path = std::string(key) + "_nvme_path";
  if (device == OffloadDevice::nvme) {
    if (is_said(folder) && !folder->empty()) return *folder;
    throw ConfigError(std::string(key) + "_device is nvme without " + path +
                      ": name a folder on a local disk there");
  }
  if (is_said(folder)) {
    get_logger("accelerate.deepspeed")
        .warning(path + " is '" + *folder + "', which has no effect: " + key +
                 "_device is not nvme. Set it to nvme, or leave the folder out.");
  }
  return {};
}

void decide_offload(const DeepSpeedConfig& config, int stage, ResolvedFsdpOptions& settings) {
  const auto optimizer = device_of("offload_optimizer_device", config.offload_optimizer_device);
  const auto parameters = device_of("offload_param_device", config.offload_param_device);
  if (parameters != OffloadDevice::none && stage != 3) {
    throw ConfigError("offload_param_device is " + lower(*config.offload_param_device) +
                      " with zero_stage " + std::to_string(stage) +
                      "; parameters are only sharded, and so only offloaded, at stage 3. Set "
                      "zero_stage to 3, or offload_optimizer_device in its place.");
  }
  settings.cpu_offload = optimizer != OffloadDevice::none || parameters != OffloadDevice::none;
  settings.offload.optimizer_folder =
      folder_of("offload_optimizer", optimizer, config.offload_optimizer_nvme_path);
  settings.offload.parameters_folder =
      folder_of("offload_param", parameters, config.offload_param_nvme_path);
}

ShardingStrategy strategy_of(int stage) {
  if (stage == 0) return ShardingStrategy::NO_SHARD;
  return stage == 3 ? ShardingStrategy::FULL_SHARD : ShardingStrategy::SHARD_GRAD_OP;
}

int stage_of(const DeepSpeedConfig& config) {
  const int stage = config.zero_stage.value_or(2);
  if (stage >= 0 && stage <= 3) return stage;
  throw ConfigError("zero_stage is " + std::to_string(stage) + "; allowed are 0 to 3");
}

// ZeRO knows no units, so units are cut by size. But each layer that DeepSpeed has to leave in one
// piece, because ranks may choose different experts in it, is a unit.
void decide_units(const DeepSpeedConfig& config, ResolvedFsdpOptions& settings) {
  settings.transformer_cls_names_to_wrap =
      detail::names_in(config.deepspeed_moe_layer_cls_names.value_or(""));
  if (!settings.transformer_cls_names_to_wrap.empty()) {
    settings.auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
    return;
  }
  settings.auto_wrap_policy = AutoWrapPolicy::SIZE_BASED_WRAP;
  settings.min_num_params = kLeastUnit;
}

void decide_dtypes(MixedPrecision mixed_precision, ResolvedFsdpOptions& settings) {
  if (mixed_precision == MixedPrecision::no) return;
  const DType dtype = mixed_precision == MixedPrecision::fp16 ? DType::f16 : DType::bf16;
  settings.param_dtype = settings.reduce_dtype = settings.buffer_dtype = dtype;
}

}  // namespace

bool use_deepspeed() {
  return env_flag("ACCELERATE_USE_DEEPSPEED", false);
}

DeepSpeedConfig deepspeed_config_from_env() {
  DeepSpeedConfig config;
  for (const auto& key : detail::deepspeed_table().keys) {
    if (!key.rules.flag || key.rules.flag->variable.empty()) continue;
    const std::string& variable = key.rules.flag->variable;
    const auto text = env(variable.c_str());
    if (is_said(text)) detail::read_text(config, key, *text, variable);
  }
  return config;
}

ResolvedFsdpOptions settings_of(const DeepSpeedConfig& config, MixedPrecision mixed_precision) {
  const int stage = stage_of(config);
  ResolvedFsdpOptions settings;
  settings.sharding_strategy = strategy_of(stage);
  settings.backward_prefetch = BackwardPrefetch::BACKWARD_PRE;
  decide_units(config, settings);
  decide_offload(config, stage, settings);
  settings.state_dict_type = StateDictType::SHARDED_STATE_DICT;
  settings.use_orig_params = true;
  settings.sync_module_states = true;
  decide_dtypes(mixed_precision, settings);
  warn_of_what_has_no_effect(config, mixed_precision);
  return settings;
}

}  // namespace accelerate
