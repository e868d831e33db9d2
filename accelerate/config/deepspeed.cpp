#include "accelerate/config/deepspeed.h"

#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"

namespace accelerate {
namespace {

constexpr std::int64_t kLeastUnit = 1'000'000;  // 2 MB in 16 bits: enough for full bandwidth

bool is_said(const std::optional<std::string>& value) {
  return value && lower(*value) != "none" && lower(*value) != "auto";
}

void refuse_file(const DeepSpeedConfig& config) {
  if (!is_said(config.deepspeed_config_file)) return;
  throw ConfigError("deepspeed_config_file is '" + *config.deepspeed_config_file +
                    "', and this version does not read DeepSpeed's own files. Write zero_stage, "
                    "gradient_accumulation_steps, gradient_clipping and the offload devices into "
                    "the section deepspeed_config instead.");
}

bool offloads(const char* key, const std::optional<std::string>& device) {
  if (!is_said(device)) return false;
  if (lower(*device) == "cpu") return true;
  throw ConfigError(std::string(key) + " is '" + *device +
                    "'; allowed are none and cpu (this version does not offload to disk)");
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

void decide_dtypes(MixedPrecision mixed_precision, FsdpSettings& settings) {
  if (mixed_precision == MixedPrecision::no) return;
  const DType dtype = mixed_precision == MixedPrecision::fp16 ? DType::f16 : DType::bf16;
  settings.param_dtype = settings.reduce_dtype = settings.buffer_dtype = dtype;
}

}  // namespace

bool use_deepspeed() {
  return env_flag("ACCELERATE_USE_DEEPSPEED", false);
}

DeepSpeedConfig deepspeed_config_from_env() {
  const std::pair<const char*, const char*> variables[] = {
      {"ACCELERATE_DEEPSPEED_CONFIG_FILE", "deepspeed_config_file"},
      {"ACCELERATE_DEEPSPEED_ZERO_STAGE", "zero_stage"},
      {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "offload_optimizer_device"},
      {"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "offload_param_device"},
      {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH", "offload_optimizer_nvme_path"},
      {"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH", "offload_param_nvme_path"},
      {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "gradient_accumulation_steps"},
      {"ACCELERATE_GRADIENT_CLIPPING", "gradient_clipping"},
      {"ACCELERATE_DEEPSPEED_ZERO3_INIT", "zero3_init_flag"},
      {"ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", "zero3_save_16bit_model"},
      {"ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", "deepspeed_moe_layer_cls_names"},
  };
  ClusterConfig whole;
  for (const auto& [variable, key] : variables) {
    const auto text = env(variable);
    if (is_said(text)) set_config_key(whole, key, *text, variable);
  }
  return whole.deepspeed_config;
}

FsdpSettings settings_of(const DeepSpeedConfig& config, MixedPrecision mixed_precision) {
  refuse_file(config);
  const int stage = stage_of(config);
  const bool optimizer = offloads("offload_optimizer_device", config.offload_optimizer_device);
  const bool parameters = offloads("offload_param_device", config.offload_param_device);
  if (parameters && stage != 3) {
    throw ConfigError("offload_param_device is cpu with zero_stage " + std::to_string(stage) +
                      "; parameters are only sharded, and so only offloaded, at stage 3. Set "
                      "zero_stage to 3, or offload_optimizer_device in its place.");
  }
  FsdpSettings settings;
  settings.sharding_strategy = strategy_of(stage);
  settings.backward_prefetch = BackwardPrefetch::BACKWARD_PRE;
  settings.auto_wrap_policy = AutoWrapPolicy::SIZE_BASED_WRAP;
  settings.min_num_params = kLeastUnit;
  settings.cpu_offload = optimizer || parameters;
  settings.state_dict_type = StateDictType::SHARDED_STATE_DICT;
  settings.use_orig_params = true;
  settings.sync_module_states = true;
  decide_dtypes(mixed_precision, settings);
  return settings;
}

}  // namespace accelerate
