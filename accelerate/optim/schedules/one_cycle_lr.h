// The one-cycle policy: up to a large rate and down to a tiny one, with momentum the other way
// round.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "accelerate/optim/lr_scheduler.h"
#include "accelerate/optim/schedules/step_schedules.h"

namespace torch::optim {

// The momentum of optimizers that have one, under whatever name.
class Optimizer;
class OptimizerParamGroup;
}  // namespace torch::optim

namespace accelerate::detail {

/// Returns "momentum" (SGD, RMSprop), "betas" (the first beta of Adam, AdamW), or "" for optimizers
/// that have neither.
[[nodiscard]] std::string momentum_field(torch::optim::Optimizer& optimizer);

/// Returns the momentum of `group`, which belongs to an optimizer that has one.
[[nodiscard]] double group_momentum(const torch::optim::OptimizerParamGroup& group);

/// Sets the momentum of `group`.
void set_group_momentum(torch::optim::OptimizerParamGroup& group, double momentum);

/// Sets both betas of `group`, which belongs to an optimizer that has betas.
void set_group_betas(torch::optim::OptimizerParamGroup& group, std::tuple<double, double> betas);

}  // namespace accelerate::detail

namespace accelerate {

enum class AnnealStrategy { cos, linear };

template <>
struct EnumTexts<AnnealStrategy> {
  static constexpr std::array<std::string_view, 2> kTexts = {"cos", "linear"};
};

struct OneCycleLROptions {
  PerGroup max_lr;  ///< The peak.
  /// Steps of the whole cycle. Or set epochs and steps_per_epoch, whose product is used.
  std::optional<std::int64_t> total_steps = {};
  std::optional<std::int64_t> epochs = {};
  std::optional<std::int64_t> steps_per_epoch = {};
  double pct_start = 0.3;  ///< Fraction of the steps until the peak, in [0, 1].
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  bool cycle_momentum = true;     ///< Also change momentum, or the first beta.
  PerGroup base_momentum = 0.85;  ///< Momentum at the peak.
  PerGroup max_momentum = 0.95;   ///< Momentum at both ends.
  double div_factor = 25;         ///< The first rate is max_lr / div_factor.
  double final_div_factor = 1e4;  ///< The last rate is the first one / final_div_factor.
  /// Goes down to the first rate in as many steps as up, and then on to the last rate.
  bool three_phase = false;
};

/// Overwrites the optimizer's rates and momenta. step() beyond total_steps throws a UsageError; a
/// prepared schedule stays at its end instead. Source: Smith and Topin, "Super-Convergence", 2018,
/// as implemented in PyTorch.
class OneCycleLR final : public LRScheduler {
 public:
  /// Throws ConfigError if options are out of range or the optimizer has no momentum to cycle.
  OneCycleLR(torch::optim::Optimizer& optimizer, const OneCycleLROptions& options);

  [[nodiscard]] std::optional<std::int64_t> total_steps() const override { return total_steps_; }
  /// The momenta that were set last, one per parameter group; empty if momentum is not cycled.
  [[nodiscard]] std::vector<double> get_last_momentum() const;

 private:
  // A step's place in its phase, and the ends between which the rate and the momentum move.
  struct Position {
    double fraction;
    int from, to;  // 0: the start, 1: the peak, 2: the end.
  };

  std::vector<double> get_lr() override;
  void visit_state(StateVisitor& field) override;
  [[nodiscard]] Position position() const;
  [[nodiscard]] double anneal(double from, double to, double fraction) const;
  void set_momenta(const Position& where);

  std::int64_t total_steps_;
  double pct_start_;
  bool three_phase_, cycle_momentum_;
  AnnealStrategy strategy_;
  std::vector<double> max_lrs_, min_lrs_, max_momenta_, base_momenta_;
};

}  // namespace accelerate
