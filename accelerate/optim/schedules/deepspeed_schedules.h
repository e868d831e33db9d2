// The schedules of DeepSpeed, by DeepSpeed's names and options. Source: lr_schedules.py of DeepSpeed
// 0.19.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/optim/lr_scheduler.h"

namespace accelerate {

/// How a rate rises in warmup: with the logarithm of the step, or with the step.
enum class WarmupType { log, linear };

/// Options by DeepSpeed's names. Each schedule reads its own and ignores the others.
struct DeepSpeedScheduleOptions {
  /// Steps of the whole schedule; WarmupDecayLR and WarmupCosineLR need it.
  std::optional<std::int64_t> total_num_steps{};
  double warmup_min_lr = 0;               ///< The first rate.
  std::optional<double> warmup_max_lr{};  ///< Default: the optimizer's; in WarmupDecayLR 0.001.
  std::int64_t warmup_num_steps = 1000;   ///< At least 1; 1 counts as 2.
  WarmupType warmup_type = WarmupType::log;
  double warmup_min_ratio = 0;  ///< WarmupCosineLR: the first rate, as a share of the optimizer's.
  double cos_min_ratio = 1e-4;  ///< WarmupCosineLR: the last rate, as a share of the optimizer's.

  // OneCycle
  double cycle_min_lr = 0;  ///< At both ends of the cycle.
  double cycle_max_lr = 0;  ///< In its middle.
  double decay_lr_rate = 0;
  std::int64_t cycle_first_step_size = 2000;
  std::optional<std::int64_t> cycle_second_step_size{};  ///< Default: as the first.
  std::int64_t cycle_first_stair_count = 0;              ///< 0: the rate moves in every step.
  std::optional<std::int64_t> cycle_second_stair_count{};
  std::int64_t decay_step_size = 0;  ///< 0: no decay after the cycle.
  /// Only for optimizers with betas: the first beta moves, and the second is 0.99.
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8;
  double cycle_max_mom = 0.9;
  double decay_mom_rate = 0;
};

/// Makes WarmupLR, WarmupDecayLR, WarmupCosineLR or OneCycle for `optimizer`, and sets the rates of
/// its first step. Throws ConfigError for another name, and for options out of range or missing.
[[nodiscard]] std::shared_ptr<LRScheduler> make_deepspeed_schedule(
    std::string_view name, torch::optim::Optimizer& optimizer,
    const DeepSpeedScheduleOptions& options);

}  // namespace accelerate
