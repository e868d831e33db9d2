#include "accelerate/launch/config/resolved_deepspeed.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/document.h"
#include "accelerate/launch/config/contradictions.h"
#include "accelerate/launch/config/deepspeed.h"
#include "accelerate/launch/config/deepspeed_keys.h"
#include "accelerate/launch/config/key_table.h"

namespace accelerate {
namespace {

constexpr const char* kFieldsVariable = "ACCELERATE_CONFIG_DS_FIELDS";

std::string shown(int value) {
  return std::to_string(value);
}
std::string shown(double value) {
  return Node::real(value).text;
}
std::string shown(bool value) {
  return value ? "true" : "false";
}
std::string shown(const std::string& value) {
  return value;
}

using detail::Contradictions;

// --- What the program and its launcher say -------------------------------------------------------

std::string variable_of(const std::string& key) {
  for (const auto& row : detail::deepspeed_table().keys) {
    if (row.name == key && row.rules.flag) return row.rules.flag->variable;
  }
  return key;
}

template <typename T>
void take(const std::optional<T>& said, std::optional<T>& field) {
  if (said) field = said;
}

DeepSpeedConfig said_by(const DeepSpeedPlugin& plugin) {
  DeepSpeedConfig config = deepspeed_config_from_env();
  take(plugin.hf_ds_config, config.deepspeed_config_file);
  take(plugin.gradient_accumulation_steps, config.gradient_accumulation_steps);
  take(plugin.gradient_clipping, config.gradient_clipping);
  take(plugin.zero_stage, config.zero_stage);
  take(plugin.offload_optimizer_device, config.offload_optimizer_device);
  take(plugin.offload_param_device, config.offload_param_device);
  take(plugin.offload_optimizer_nvme_path, config.offload_optimizer_nvme_path);
  take(plugin.offload_param_nvme_path, config.offload_param_nvme_path);
  take(plugin.zero3_init_flag, config.zero3_init_flag);
  take(plugin.zero3_save_16bit_model, config.zero3_save_16bit_model);
  take(plugin.transformer_moe_cls_names, config.deepspeed_moe_layer_cls_names);
  return config;
}

// Says what the table of keys says of `msamp` in a file.
void refuse_msamp(const DeepSpeedPlugin& plugin) {
  if (!plugin.enable_msamp.value_or(false)) return;
  const detail::DeepSpeedKey& key = *detail::find_deepspeed_key("msamp.enabled");
  throw ConfigError("DeepSpeedPlugin's enable_msamp is true, which is " +
                        std::string(words_of(key.fate)) + " (" + key.why + "). Leave it out.",
                    error_name::kDeepspeedKey);
}

// Throws ConfigError if the launcher's own file has keys beside DeepSpeed's file, which void them.
void refuse_void_fields() {
  const std::vector<std::string> kVoid = {
      "gradient_accumulation_steps", "gradient_clipping",      "zero_stage",
      "offload_optimizer_device",    "offload_param_device",   "offload_param_nvme_path",
      "offload_optimizer_nvme_path", "zero3_save_16bit_model", "mixed_precision"};
  std::vector<std::string> found;
  for (const auto& name : split(env(kFieldsVariable).value_or(""), ',')) {
    if (std::find(kVoid.begin(), kVoid.end(), name) != kVoid.end()) found.push_back(name);
  }
  if (found.empty()) return;
  throw ConfigError(
      "the launcher's file has deepspeed_config_file and " + join(found, ", ") +
          ", which would have no effect beside it. Write them into DeepSpeed's file, and "
          "leave them out of the launcher's.",
      error_name::kDeepspeedContradiction);
}

// --- What the file says --------------------------------------------------------------------------

// Holds a file against what is said elsewhere.
class Settlement {
 public:
  Settlement(const DeepSpeedFile& file, const DeepSpeedPlugin& plugin,
             Contradictions& contradictions)
      : file_(file), plugin_(plugin), contradictions_(contradictions) {}

  // Gives `said` the file's value of `path`. `by_program` tells whether the plugin said `said`.
  template <typename T>
  void settle(const std::string& path, const std::string& key, const std::optional<T>& in_file,
              std::pair<std::optional<T>&, bool> said) {
    if (!in_file) return;
    auto& [value, by_program] = said;
    if (value && *value != *in_file) {
      const std::string where = by_program ? "DeepSpeedPlugin's " + key : variable_of(key);
      contradictions_.add(path + " is " + shown(*in_file) + " (" + file_.place_of(path) +
                          "), and " + where + " is " + shown(*value));
    }
    value = in_file;
  }

  void settle_all(DeepSpeedConfig& said) {
    const std::string zero = "zero_optimization.";
    settle("gradient_accumulation_steps", "gradient_accumulation_steps",
           narrow(file_.integer("gradient_accumulation_steps")),
           {said.gradient_accumulation_steps, plugin_.gradient_accumulation_steps.has_value()});
    settle("gradient_clipping", "gradient_clipping", file_.number("gradient_clipping"),
           {said.gradient_clipping, plugin_.gradient_clipping.has_value()});
    settle(zero + "stage", "zero_stage", narrow(file_.integer(zero + "stage")),
           {said.zero_stage, plugin_.zero_stage.has_value()});
    settle(zero + "offload_optimizer.device", "offload_optimizer_device",
           device(zero + "offload_optimizer.device"),
           {said.offload_optimizer_device, plugin_.offload_optimizer_device.has_value()});
    settle(zero + "offload_param.device", "offload_param_device",
           device(zero + "offload_param.device"),
           {said.offload_param_device, plugin_.offload_param_device.has_value()});
    settle(zero + "offload_optimizer.nvme_path", "offload_optimizer_nvme_path",
           file_.text(zero + "offload_optimizer.nvme_path"),
           {said.offload_optimizer_nvme_path, plugin_.offload_optimizer_nvme_path.has_value()});
    settle(zero + "offload_param.nvme_path", "offload_param_nvme_path",
           file_.text(zero + "offload_param.nvme_path"),
           {said.offload_param_nvme_path, plugin_.offload_param_nvme_path.has_value()});
    const std::string gather = zero + "stage3_gather_16bit_weights_on_model_save";
    settle(gather, "zero3_save_16bit_model", file_.boolean(gather),
           {said.zero3_save_16bit_model, plugin_.zero3_save_16bit_model.has_value()});
  }

 private:
  static std::optional<int> narrow(std::optional<std::int64_t> value) {
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
  }

  [[nodiscard]] std::optional<std::string> device(const std::string& path) const {
    const auto word = file_.text(path);
    return word ? std::optional(lower(*word)) : std::nullopt;
  }

  const DeepSpeedFile& file_;
  const DeepSpeedPlugin& plugin_;
  Contradictions& contradictions_;
};

// Gives the keys that the file leaves out the defaults of a file.
void take_defaults_of_files(const DeepSpeedFile& file, DeepSpeedConfig& said) {
  if (!file.has("gradient_accumulation_steps") && !said.gradient_accumulation_steps)
    said.gradient_accumulation_steps = 1;
  if (!file.has("zero_optimization.stage") && !said.zero_stage) said.zero_stage = 0;
  std::vector<std::string> classes;
  for (const auto& name : file.texts("zero_optimization.leaf_module.classes"))
    classes.push_back(name.substr(name.rfind('.') + 1));
  if (!classes.empty() && !said.deepspeed_moe_layer_cls_names)
    said.deepspeed_moe_layer_cls_names = join(classes, ",");
}

// --- Mixed precision -----------------------------------------------------------------------------

struct AskedPrecision {
  MixedPrecision precision;
  std::string key;  // The key of the file that asks for it.
};

std::vector<AskedPrecision> precisions_in(const DeepSpeedFile& file) {
  std::vector<AskedPrecision> asked;
  if (file.boolean("fp16.enabled").value_or(false))
    asked.push_back({MixedPrecision::fp16, "fp16.enabled"});
  if (file.boolean("bf16.enabled").value_or(false))
    asked.push_back({MixedPrecision::bf16, "bf16.enabled"});
  if (file.boolean("torch_autocast.enabled").value_or(false)) {
    const std::string dtype = lower(file.text("torch_autocast.dtype").value_or("bf16"));
    const bool is_half = dtype.find("bf") == std::string::npos;
    asked.push_back({is_half ? MixedPrecision::fp16 : MixedPrecision::bf16, "torch_autocast"});
  }
  return asked;
}

MixedPrecision precision_in(const DeepSpeedFile& file, std::optional<MixedPrecision> said,
                            Contradictions& contradictions) {
  const bool is_said = said && *said != MixedPrecision::no;
  const MixedPrecision meant =
      said == MixedPrecision::fp8 ? MixedPrecision::bf16 : said.value_or(MixedPrecision::no);
  const auto asked = precisions_in(file);
  for (const auto& one : asked) {
    if (is_said && one.precision != meant)
      contradictions.add(one.key + " is true (" + file.place_of(one.key) +
                         "), and mixed_precision is " + std::string(to_string(*said)));
    else if (one.precision != asked[0].precision)
      contradictions.add(one.key + " and " + asked[0].key + " are both true (" +
                         file.place_of(one.key) + ")");
  }
  const std::string own = std::string(to_string(meant)) + ".enabled";
  if (is_said && asked.empty() && file.boolean(own) == false)
    contradictions.add(own + " is false (" + file.place_of(own) + "), and mixed_precision is " +
                       std::string(to_string(*said)));
  if (is_said) return *said;
  return asked.empty() ? MixedPrecision::no : asked[0].precision;
}

LossScaling loss_scaling_in(const DeepSpeedFile& file) {
  LossScaling scaling;
  scaling.loss_scale = file.number("fp16.loss_scale").value_or(scaling.loss_scale);
  scaling.initial_scale_power = static_cast<int>(
      file.integer("fp16.initial_scale_power").value_or(scaling.initial_scale_power));
  scaling.window = file.integer("fp16.loss_scale_window").value_or(scaling.window);
  scaling.hysteresis = file.integer("fp16.hysteresis").value_or(scaling.hysteresis);
  scaling.consecutive_hysteresis = file.boolean("fp16.consecutive_hysteresis").value_or(false);
  scaling.min_loss_scale = file.number("fp16.min_loss_scale").value_or(scaling.min_loss_scale);
  return scaling;
}

// --- Batches -------------------------------------------------------------------------------------

// Returns a rank's samples in a micro-batch, as far as the file says. Notes a train_batch_size that
// the other numbers do not make.
std::optional<std::int64_t> micro_batch_in(const DeepSpeedFile& file, std::int64_t steps, int ranks,
                                           Contradictions& contradictions) {
  const auto train = file.integer("train_batch_size");
  const auto micro = file.integer("train_micro_batch_size_per_gpu");
  if (!train) return micro;
  const std::string others = std::to_string(steps) + " (gradient_accumulation_steps) × " +
                             std::to_string(ranks) + " (ranks)";
  const std::string found =
      "train_batch_size is " + std::to_string(*train) + " (" + file.place_of("train_batch_size");
  if (micro && *train != *micro * steps * ranks)
    contradictions.add(found + "), and " + std::to_string(*micro) +
                       " (train_micro_batch_size_per_gpu) × " + others + " is " +
                       std::to_string(*micro * steps * ranks));
  else if (!micro && *train % (steps * ranks) != 0)
    contradictions.add(found + "), which is no multiple of " + others);
  return micro ? micro : *train / (steps * ranks);
}

// --- Sharding ------------------------------------------------------------------------------------

DType dtype_of(const std::string& word) {
  if (lower(word) == "fp16") return DType::f16;
  return lower(word) == "bf16" ? DType::bf16 : DType::f32;
}

// Adds what only a file can say.
void take_sharding_of(const DeepSpeedFile& file, MixedPrecision precision,
                      ResolvedFsdpOptions& settings) {
  if (const auto word = file.text("communication_data_type"))
    settings.reduce_dtype = dtype_of(*word);
  if (const auto word = file.text("data_types.buffer_dtype"))
    settings.buffer_dtype = dtype_of(*word);
  const auto elements = file.integer("zero_optimization.offload_param.max_in_cpu");
  if (elements && !settings.offload.parameters_folder.empty())
    settings.offload.max_in_cpu = *elements * (precision == MixedPrecision::no ? 4 : 2);
  const auto group = file.integer("zero_optimization.mics_shard_size").value_or(-1);
  if (group > 0 && settings.sharding_strategy == ShardingStrategy::FULL_SHARD) {
    settings.sharding_strategy = ShardingStrategy::HYBRID_SHARD;
    settings.shard_group_size = static_cast<int>(group);
  }
}

}  // namespace

std::optional<DeepSpeedFile> deepspeed_file_of(const DeepSpeedPlugin& plugin) {
  if (plugin.hf_ds_config) return read_deepspeed_file(*plugin.hf_ds_config);
  const auto named = deepspeed_config_from_env().deepspeed_config_file;
  return named ? std::optional(read_deepspeed_file(*named)) : std::nullopt;
}

ResolvedDeepSpeed resolve_deepspeed(const DeepSpeedPlugin& plugin,
                                    const DeepSpeedProgram& program) {
  refuse_msamp(plugin);
  ResolvedDeepSpeed settings;
  DeepSpeedConfig said = said_by(plugin);
  settings.mixed_precision = program.mixed_precision.value_or(MixedPrecision::no);
  settings.file = deepspeed_file_of(plugin);
  if (settings.file) {
    const DeepSpeedFile& file = *settings.file;
    if (!plugin.hf_ds_config) refuse_void_fields();
    if (!file.has("zero_optimization"))
      throw ConfigError(file.name() +
                        " has no zero_optimization, which says how a model is sharded. Add "
                        "\"zero_optimization\": {\"stage\": 0} to shard nothing.");
    Contradictions contradictions;
    Settlement(file, plugin, contradictions).settle_all(said);
    take_defaults_of_files(file, said);
    settings.mixed_precision = precision_in(file, program.mixed_precision, contradictions);
    const int steps =
        said.gradient_accumulation_steps.value_or(program.gradient_accumulation_steps);
    settings.micro_batch_size = micro_batch_in(file, steps, program.num_processes, contradictions);
    contradictions.raise();
    file.warn_of_keys_without_effect();
    if (settings.mixed_precision == MixedPrecision::fp16)
      settings.loss_scaling = loss_scaling_in(file);
  }
  settings.gradient_accumulation_steps = said.gradient_accumulation_steps;
  settings.gradient_clipping = said.gradient_clipping.value_or(kUsualClipping);
  settings.sharding = settings_of(said, settings.mixed_precision);
  if (settings.file) take_sharding_of(*settings.file, settings.mixed_precision, settings.sharding);
  return settings;
}

}  // namespace accelerate
