// Schedules by name, as transformers' get_scheduler makes them. docs/schedules.md has the formulas.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/lr_scheduler.h"
#include "accelerate/optim/schedules/metric_scheduler.h"
#include "accelerate/optim/schedules/per_group.h"
#include "accelerate/optim/schedules/warmup_factors.h"

namespace accelerate {

/// What only some schedules take; what is not set has the schedule's own default, and a field that
/// a schedule does not take must not be set.
struct SchedulerKwargs {
  /// cosine, cosine_with_min_lr, cosine_warmup_with_min_lr, warmup_stable_decay: waves, default
  /// 0.5. cosine_with_restarts: falls from 1 to 0, default 1.
  std::optional<double> num_cycles = {};
  std::optional<double> power = {};   ///< polynomial: of what is left of the way; 1.
  std::optional<double> lr_end = {};  ///< polynomial: the last rate; 1e-7.
  /// cosine_with_min_lr, cosine_warmup_with_min_lr: the lowest rate (or give min_lr_rate).
  /// reduce_lr_on_plateau (0) and greedy (1e-3): a bound, perhaps for each group.
  std::optional<PerGroup> min_lr = {};
  std::optional<double> min_lr_rate = {};      ///< The lowest rate as a fraction of the first.
  std::optional<double> warmup_lr_rate = {};   ///< cosine_warmup_with_min_lr: step 0; 1 / warm-up.
  std::optional<std::int64_t> timescale = {};  ///< inverse_sqrt: warm-up, or 10,000 without one.
  // warmup_stable_decay
  std::optional<std::int64_t> num_decay_steps = {};   ///< Must be set.
  std::optional<std::int64_t> num_stable_steps = {};  ///< What training leaves for it.
  std::optional<RampType> warmup_type = {};           ///< linear.
  std::optional<RampType> decay_type = {};            ///< cosine.
  std::optional<double> min_lr_ratio = {};            ///< Lowest rate as a fraction; 0.
  // reduce_lr_on_plateau, greedy: see ReduceLROnPlateauOptions and GreedyLROptions.
  std::optional<MetricMode> mode = {};
  std::optional<double> factor = {};
  std::optional<std::int64_t> patience = {};
  std::optional<double> threshold = {};
  std::optional<ThresholdMode> threshold_mode = {};
  std::optional<std::int64_t> cooldown = {};
  std::optional<double> eps = {};
  // greedy alone
  std::optional<std::int64_t> warmup = {};
  std::optional<PerGroup> max_lr = {};
  std::optional<bool> smooth = {};
  std::optional<std::int64_t> window_size = {};
  std::optional<std::int64_t> reset_start = {};
};

struct SchedulerOptions {
  /// Steps in which the rate rises to its full height; 0: none.
  std::optional<std::int64_t> num_warmup_steps = {};
  /// Steps of the whole training, warm-up included. Counted before prepare(): see
  /// AcceleratedScheduler for what a step is on several processes.
  std::optional<std::int64_t> num_training_steps = {};
  SchedulerKwargs scheduler_specific_kwargs = {};
};

/// The schedule called `name` for `optimizer`: linear, cosine, cosine_with_restarts, polynomial,
/// constant, constant_with_warmup, inverse_sqrt, reduce_lr_on_plateau, cosine_with_min_lr,
/// cosine_warmup_with_min_lr, warmup_stable_decay, greedy, or a registered one. Sets the rates of
/// step 0. Throws ConfigError: unknown name, an option that is missing, out of range or of another
/// schedule.
[[nodiscard]] std::shared_ptr<LRScheduler> get_scheduler(std::string_view name,
                                                         torch::optim::Optimizer& optimizer,
                                                         const SchedulerOptions& options = {});

/// The same for an optimizer that was prepared before.
[[nodiscard]] inline std::shared_ptr<LRScheduler> get_scheduler(
    std::string_view name, const AcceleratedOptimizer& optimizer,
    const SchedulerOptions& options = {}) {
  return get_scheduler(name, optimizer.optimizer(), options);
}

using SchedulerFactory = std::function<std::shared_ptr<LRScheduler>(
    torch::optim::Optimizer& optimizer, const SchedulerOptions& options)>;

/// Lets get_scheduler make a schedule of yours. Throws ConfigError when the name is empty or
/// taken. Thread-safe.
void register_scheduler(const std::string& name, SchedulerFactory factory);

/// Every name that get_scheduler knows: the library's in the order above, then the registered ones.
[[nodiscard]] std::vector<std::string> scheduler_names();

}  // namespace accelerate
