#include "accelerate/optim/schedules/deepspeed_schedules.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/optim/schedules/one_cycle_lr.h"

namespace accelerate {
namespace {

using Options = DeepSpeedScheduleOptions;

// DeepSpeed counts iterations: -1 before the first step of the optimizer, whose rate is that of the
// start, then 0, 1, 2 …
constexpr std::int64_t kBeforeTheFirst = -1;
constexpr double kSecondBeta = 0.99;  // Of OneCycle.

// Rates as a function of the iteration and of the optimizer's own rates.
class DeepSpeedSchedule : public LRScheduler {
 public:
  using Rates =
      std::function<std::vector<double>(std::int64_t iteration, const std::vector<double>& own)>;

  DeepSpeedSchedule(torch::optim::Optimizer& optimizer, Rates rates)
      : LRScheduler(optimizer), rates_(std::move(rates)) {
    start();
  }

 private:
  std::vector<double> get_lr() override { return rates_(last_epoch() - 1, base_lrs()); }

  Rates rates_;
};

double warmup_share(std::int64_t iteration, const Options& options) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(2, options.warmup_num_steps));
  const auto at = static_cast<double>(iteration);
  return options.warmup_type == WarmupType::log ? std::log(at + 1) / std::log(steps) : at / steps;
}

bool warms_up(std::int64_t iteration, const Options& options) {
  return iteration < std::max<std::int64_t>(2, options.warmup_num_steps);
}

// Returns the share of the way from the least to the full rate, with a decay to 0 if it is known
// when the schedule ends.
double warmup_gamma(std::int64_t iteration, const Options& options) {
  if (iteration == kBeforeTheFirst) return 0;
  if (warms_up(iteration, options)) return warmup_share(iteration, options);
  if (!options.total_num_steps) return 1;
  const auto total = static_cast<double>(*options.total_num_steps);
  const auto steps = static_cast<double>(std::max<std::int64_t>(2, options.warmup_num_steps));
  return std::max(0.0, (total - static_cast<double>(iteration)) / std::max(1.0, total - steps));
}

std::vector<double> warmup_rates(std::int64_t iteration, const std::vector<double>& own,
                                 const Options& options) {
  const double gamma = warmup_gamma(iteration, options);
  std::vector<double> rates;
  for (const double rate : own) {
    const double full = options.warmup_max_lr.value_or(rate);
    rates.push_back(options.warmup_min_lr + (full - options.warmup_min_lr) * gamma);
  }
  return rates;
}

double cosine_ratio(std::int64_t iteration, const Options& options) {
  if (iteration == kBeforeTheFirst) return 0;
  if (warms_up(iteration, options))
    return options.warmup_min_ratio +
           warmup_share(iteration, options) * (1 - options.warmup_min_ratio);
  const std::int64_t warmup = std::max<std::int64_t>(2, options.warmup_num_steps);
  const auto step = static_cast<double>(iteration - warmup + 1);
  const auto total =
      static_cast<double>(std::max<std::int64_t>(1, *options.total_num_steps - warmup));
  const double ratio = (1 + std::cos(std::numbers::pi * std::min(1.0, step / total))) / 2;
  return std::max(0.0, options.cos_min_ratio + (1 - options.cos_min_ratio) * ratio);
}

// --- OneCycle ------------------------------------------------------------------------------------

class OneCycle final : public LRScheduler {
 public:
  OneCycle(torch::optim::Optimizer& optimizer, const Options& options)
      : LRScheduler(optimizer),
        options_(options),
        second_(options.cycle_second_step_size.value_or(options.cycle_first_step_size)),
        total_(options.cycle_first_step_size + second_),
        moves_momentum_(options.cycle_momentum && detail::momentum_field(optimizer) == "betas") {
    start();
  }

 private:
  std::vector<double> get_lr() override {
    const std::int64_t iteration = last_epoch() - 1;
    const bool is_in_cycle = iteration < total_;
    const double share = is_in_cycle ? scale(iteration + 1) : 0;
    const double decays = is_in_cycle ? 0 : decay_steps(iteration);
    if (moves_momentum_) set_momenta(momentum(share, decays));
    const double rate =
        options_.cycle_min_lr + (options_.cycle_max_lr - options_.cycle_min_lr) * share;
    return std::vector<double>(base_lrs().size(), rate / (1 + options_.decay_lr_rate * decays));
  }

  // Returns how far up the cycle is at a step, from 0 to 1.
  [[nodiscard]] double scale(std::int64_t step) const {
    const std::int64_t at = step % total_;
    const bool rises = at <= options_.cycle_first_step_size;
    const std::int64_t way = rises ? at : total_ - at;
    const std::int64_t length = rises ? options_.cycle_first_step_size : second_;
    const std::int64_t stairs =
        rises ? options_.cycle_first_stair_count
              : options_.cycle_second_stair_count.value_or(options_.cycle_first_stair_count);
    const double share = static_cast<double>(way) / static_cast<double>(length);
    if (stairs == 0) return share;
    return std::floor(static_cast<double>(way) * static_cast<double>(stairs) /
                      static_cast<double>(length)) /
           static_cast<double>(stairs);
  }

  [[nodiscard]] double decay_steps(std::int64_t iteration) const {
    if (options_.decay_step_size == 0) return 0;
    return static_cast<double>(iteration - total_ + 1) /
           static_cast<double>(options_.decay_step_size);
  }

  [[nodiscard]] double momentum(double share, double decays) const {
    const double height = (options_.cycle_max_mom - options_.cycle_min_mom) * share;
    // Before the first step, DeepSpeed sets the least momentum.
    if (last_epoch() == 0) return options_.cycle_min_mom;
    return (options_.cycle_max_mom - height) * (1 + options_.decay_mom_rate * decays);
  }

  // DeepSpeed sets the second beta too, whatever the optimizer's is.
  void set_momenta(double momentum) {
    for (auto& group : optimizer()->param_groups())
      detail::set_group_betas(group, {momentum, kSecondBeta});
  }

  Options options_;
  std::int64_t second_;
  std::int64_t total_;
  bool moves_momentum_;
};

// --- Options -------------------------------------------------------------------------------------

void require_option(bool holds, std::string_view name, const std::string& what) {
  if (!holds) throw ConfigError(std::string(name) + " of DeepSpeed: " + what);
}

void check_warmup(std::string_view name, const Options& options) {
  require_option(
      options.warmup_num_steps > 0, name,
      "warmup_num_steps is " + std::to_string(options.warmup_num_steps) + "; allowed is 1 or more");
  require_option(name == "WarmupLR" || options.total_num_steps, name,
                 "total_num_steps is missing; it says when the schedule ends");
}

void check_cycle(const Options& options) {
  require_option(options.cycle_first_step_size > 0, "OneCycle",
                 "cycle_first_step_size is " + std::to_string(options.cycle_first_step_size) +
                     "; allowed is 1 or more");
  require_option(options.cycle_second_step_size.value_or(1) > 0, "OneCycle",
                 "cycle_second_step_size is 0; allowed is 1 or more");
}

}  // namespace

std::shared_ptr<LRScheduler> make_deepspeed_schedule(std::string_view name,
                                                     torch::optim::Optimizer& optimizer,
                                                     const DeepSpeedScheduleOptions& options) {
  if (name == "OneCycle") {
    check_cycle(options);
    return std::make_shared<OneCycle>(optimizer, options);
  }
  const std::vector<std::string> names = {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR",
                                          "OneCycle"};
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw ConfigError("scheduler.type is '" + std::string(name) + "'; allowed is one of " +
                      join(names, ", ") + "." + did_you_mean(name, names));
  check_warmup(name, options);
  Options own = options;
  if (name == "WarmupLR") own.total_num_steps = std::nullopt;
  if (name == "WarmupDecayLR" && !own.warmup_max_lr) own.warmup_max_lr = 0.001;
  if (name != "WarmupCosineLR")
    return std::make_shared<DeepSpeedSchedule>(
        optimizer, [own](std::int64_t iteration, const std::vector<double>& rates) {
          return warmup_rates(iteration, rates, own);
        });
  return std::make_shared<DeepSpeedSchedule>(
      optimizer, [own](std::int64_t iteration, std::vector<double> rates) {
        for (double& rate : rates) rate *= cosine_ratio(iteration, own);
        return rates;
      });
}

}  // namespace accelerate
