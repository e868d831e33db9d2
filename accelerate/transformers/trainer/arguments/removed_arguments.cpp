#include "accelerate/transformers/trainer/arguments/parse_args.h"
#include "accelerate/transformers/trainer/ranks.h"

#include <map>

namespace accelerate::detail {
namespace {

const char* const kPrecision = "use `fp16` or `bf16`, which have one implementation here";
const char* const kLoaders = "use `accelerator_config`, whose fields have the same names";
const char* const kLauncher =
    "leave it out: the launcher decides which devices and processes there are";
const char* const kNoEffect = "leave it out: it has no effect here";

// What to write instead of each.
const std::map<std::string, std::string>& cures() {
  static const std::map<std::string, std::string> kCures{
      {"_n_gpu", kLauncher},
      {"adafactor", "use `optim: adafactor`"},
      {"dispatch_batches", kLoaders},
      {"evaluation_strategy", "use `eval_strategy`"},
      {"fp16_backend", kPrecision},
      {"fp16_opt_level", kPrecision},
      {"fsdp_min_num_params", "use `min_num_params` of `fsdp_config`"},
      {"fsdp_transformer_layer_cls_to_wrap",
       "use `transformer_layer_cls_to_wrap` of `fsdp_config`"},
      {"group_by_length", "use `train_sampling_strategy: group_by_length`"},
      {"half_precision_backend", kPrecision},
      {"include_inputs_for_metrics", "use `include_for_metrics: inputs`"},
      {"include_tokens_per_second", "use `include_num_input_tokens_seen`"},
      {"jit_mode_eval",
       "leave it out: make the model of a TorchScript file to evaluate TorchScript"},
      {"logging_dir", "use `output_dir`: trackers write into its folder `runs`"},
      {"mp_parameters", kNoEffect},
      {"no_cuda", "use `use_cpu`"},
      {"past_index", kNoEffect},
      {"per_gpu_eval_batch_size", "use `per_device_eval_batch_size`"},
      {"per_gpu_train_batch_size", "use `per_device_train_batch_size`"},
      {"push_to_hub_model_id", "use `hub_model_id`"},
      {"push_to_hub_organization", "use `hub_model_id`, as organization/name"},
      {"push_to_hub_token", "use `hub_token`"},
      {"ray_scope", "leave it out: a Trainer searches no hyperparameters"},
      {"save_safetensors", "leave it out: checkpoints hold safetensors always"},
      {"sharded_ddp", "use `fsdp`"},
      {"split_batches", kLoaders},
      {"torchdynamo", "leave it out: LibTorch has no torch.compile"},
      {"tp_size", "leave it out: a Trainer shards models by `fsdp` alone"},
      {"tpu_metrics_debug", kNoEffect},
      {"tpu_num_cores", kLauncher},
      {"use_ipex", kNoEffect},
      {"use_legacy_prediction_loop", kNoEffect},
      {"use_mps_device", kLauncher},
      {"xpu_backend", "use `ddp_backend`"},
  };
  return kCures;
}

}  // namespace

std::optional<std::string> removal_of(const std::string& name) {
  auto found = cures().find(name);
  if (found == cures().end() && name.starts_with("no_")) found = cures().find(name.substr(3));
  if (found == cures().end()) return std::nullopt;
  return "was removed in Transformers 5; " + found->second;
}

void warn_of_old_name(const std::string& name, const std::string& argument) {
  if (name == argument) return;
  if (const auto removal = removal_of(name))
    trainer_logger().warning("the argument '" + name + "' " + *removal + ". It is read as '" +
                             argument + "'");
}

}  // namespace accelerate::detail
