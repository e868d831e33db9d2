// What a program says about DeepSpeed's ZeRO.
#pragma once

#include <optional>
#include <string>

namespace accelerate {

/// Names are upstream's, in upstream's order. A field that is left out is not said: then the
/// launcher's variable decides, else the file, else upstream's default. A field that contradicts
/// the file is refused.
struct DeepSpeedPlugin {
  /// DeepSpeed's own JSON file: its path, the JSON, or base64 of it.
  std::optional<std::string> hf_ds_config{};
  std::optional<int> gradient_accumulation_steps{};  ///< Default: the Accelerator's.
  /// Largest norm of the gradients; 0 for none. Default: 1.0.
  std::optional<double> gradient_clipping{};
  std::optional<int> zero_stage{};  ///< 0 to 3; default 2.
  /// No effect: every loader keeps its own batch size.
  std::optional<bool> is_train_batch_min{};
  std::optional<std::string> offload_optimizer_device{};  ///< none, cpu or nvme; default none.
  std::optional<std::string> offload_param_device{};      ///< none, cpu or nvme; default none.
  std::optional<std::string> offload_optimizer_nvme_path{};
  std::optional<std::string> offload_param_nvme_path{};
  std::optional<bool> zero3_init_flag{};         ///< No effect: see docs/deepspeed.md.
  std::optional<bool> zero3_save_16bit_model{};  ///< No effect: see docs/deepspeed.md.
  /// Class names, separated by commas, each module of which is one unit.
  std::optional<std::string> transformer_moe_cls_names{};
  std::optional<bool> enable_msamp{};            ///< Refused if true: MS-AMP is a Python library.
  std::optional<std::string> msamp_opt_level{};  ///< No effect without enable_msamp.
  bool operator==(const DeepSpeedPlugin&) const = default;
};

}  // namespace accelerate
