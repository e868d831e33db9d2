// Makes schedules by name, as transformers' get_scheduler does. docs/schedules.md has the formulas.
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
#include "accelerate/optim/schedules/step_schedules.h"
#include "accelerate/optim/schedules/warmup_factors.h"

namespace accelerate {

/// Options that only some schedules take. An unset field has the schedule's default. A field that a
/// schedule does not take must not be set.
struct SchedulerSpecificOptions {
  /// Waves for cosine, cosine_with_min_lr, cosine_warmup_with_min_lr and warmup_stable_decay;
  /// default 0.5. Falls from 1 to 0 for cosine_with_restarts; default 1.
  std::optional<double> num_cycles = {};
  /// polynomial: the power of the remaining fraction; default 1.
  std::optional<double> power = {};
  /// polynomial: the last rate; default 1e-7.
  std::optional<double> lr_end = {};
  /// cosine_with_min_lr, cosine_warmup_with_min_lr: the lowest rate (or set min_lr_rate).
  /// reduce_lr_on_plateau (default 0) and greedy (default 1e-3): a lower bound, perhaps per group.
  std::optional<PerGroup> min_lr = {};
  /// The lowest rate as a fraction of the first.
  std::optional<double> min_lr_rate = {};
  /// cosine_warmup_with_min_lr: the factor of step 0; default 1 / num_warmup_steps.
  std::optional<double> warmup_lr_rate = {};
  /// inverse_sqrt: default num_warmup_steps, or 10,000 without a warm-up.
  std::optional<std::int64_t> timescale = {};
  // warmup_stable_decay
  std::optional<std::int64_t> num_decay_steps = {};  ///< Must be set.
  /// Default: the steps that warm-up and decay leave of the training.
  std::optional<std::int64_t> num_stable_steps = {};
  std::optional<RampType> warmup_type = {};  ///< Default: linear.
  std::optional<RampType> decay_type = {};   ///< Default: cosine.
  std::optional<double> min_lr_ratio = {};   ///< Lowest rate as a fraction; default 0.
  // reduce_lr_on_plateau, greedy: see ReduceLROnPlateauOptions and GreedyLROptions.
  std::optional<MetricMode> mode = {};
  std::optional<double> factor = {};
  std::optional<std::int64_t> patience = {};
  std::optional<double> threshold = {};
  std::optional<ThresholdMode> threshold_mode = {};
  std::optional<std::int64_t> cooldown = {};
  std::optional<double> eps = {};
  // greedy only
  std::optional<std::int64_t> warmup = {};
  std::optional<PerGroup> max_lr = {};
  std::optional<bool> smooth = {};
  std::optional<std::int64_t> window_size = {};
  std::optional<std::int64_t> reset_start = {};
};

namespace detail {
/// Calls `visit(name, field)` for every field of `kwargs`, a SchedulerSpecificOptions, const or not: for
/// whoever reads, writes or lists them by name.
template <typename Kwargs, typename Visit>
void visit_fields(Kwargs& kwargs, const Visit& visit) {
  visit("num_cycles", kwargs.num_cycles);
  visit("power", kwargs.power);
  visit("lr_end", kwargs.lr_end);
  visit("min_lr", kwargs.min_lr);
  visit("min_lr_rate", kwargs.min_lr_rate);
  visit("warmup_lr_rate", kwargs.warmup_lr_rate);
  visit("timescale", kwargs.timescale);
  visit("num_decay_steps", kwargs.num_decay_steps);
  visit("num_stable_steps", kwargs.num_stable_steps);
  visit("warmup_type", kwargs.warmup_type);
  visit("decay_type", kwargs.decay_type);
  visit("min_lr_ratio", kwargs.min_lr_ratio);
  visit("mode", kwargs.mode);
  visit("factor", kwargs.factor);
  visit("patience", kwargs.patience);
  visit("threshold", kwargs.threshold);
  visit("threshold_mode", kwargs.threshold_mode);
  visit("cooldown", kwargs.cooldown);
  visit("eps", kwargs.eps);
  visit("warmup", kwargs.warmup);
  visit("max_lr", kwargs.max_lr);
  visit("smooth", kwargs.smooth);
  visit("window_size", kwargs.window_size);
  visit("reset_start", kwargs.reset_start);
}
}  // namespace detail

struct SchedulerOptions {
  /// Steps in which the rate rises to its full height; 0 for no warm-up.
  std::optional<std::int64_t> num_warmup_steps = {};
  /// Steps of the whole training, including the warm-up, counted before prepare(). See
  /// AcceleratedScheduler for what a step is on several processes.
  std::optional<std::int64_t> num_training_steps = {};
  SchedulerSpecificOptions scheduler_specific_kwargs = {};
};

/// Makes the schedule called `name` for `optimizer`: linear, cosine, cosine_with_restarts,
/// polynomial, constant, constant_with_warmup, inverse_sqrt, reduce_lr_on_plateau,
/// cosine_with_min_lr, cosine_warmup_with_min_lr, warmup_stable_decay, greedy, or a registered
/// name. Sets the rates of step 0. Throws ConfigError for an unknown name, and for an option that
/// is missing, out of range or not taken by the schedule.
[[nodiscard]] SharedScheduler get_scheduler(std::string_view name,
                                            torch::optim::Optimizer& optimizer,
                                            const SchedulerOptions& options = {});

/// As above, for an optimizer that was prepared before. Prepare the schedule too if it is to follow
/// the optimizer's steps; else it advances in every step().
[[nodiscard]] inline SharedScheduler get_scheduler(std::string_view name,
                                                   const AcceleratedOptimizer& optimizer,
                                                   const SchedulerOptions& options = {}) {
  return get_scheduler(name, optimizer.optimizer(), options);
}

using SchedulerFactory = std::function<std::shared_ptr<LRScheduler>(
    torch::optim::Optimizer& optimizer, const SchedulerOptions& options)>;

/// Lets get_scheduler make a schedule of yours. Throws ConfigError if the name is empty or taken,
/// or the function is empty. Thread-safe.
void register_scheduler(const std::string& name, SchedulerFactory factory);

/// Returns every name that get_scheduler knows: the library's in the order above, then the
/// registered names.
[[nodiscard]] std::vector<std::string> scheduler_names();

}  // namespace accelerate
