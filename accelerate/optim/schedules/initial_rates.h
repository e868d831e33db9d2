// The learning rates from which schedules start.
#pragma once

#include <memory>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace accelerate::detail {

/// What PyTorch keeps as `initial_lr` in a parameter group and LibTorch's groups have no room for:
/// the rates that the optimizer had before any schedule. The schedules of one optimizer share it.
struct InitialRates {
  std::vector<double> initial;   ///< For each parameter group.
  std::vector<double> last_set;  ///< What a schedule wrote last.
};

/// The record of `optimizer`, which begins with the rates as they are. It is the one that earlier
/// schedules of this optimizer had as long as the groups hold the same parameters and the rates
/// that those schedules wrote: an optimizer that happens to take another one's address, or whose
/// rates were set by hand since, begins anew. Groups that were added begin with their rate.
/// Thread-safe. Cost: a look-up; a record stays until its parameters are gone.
[[nodiscard]] std::shared_ptr<InitialRates> initial_rates_of(torch::optim::Optimizer& optimizer);

/// The rate of every parameter group. Throws UsageError when the optimizer's options have none.
[[nodiscard]] std::vector<double> group_rates(torch::optim::Optimizer& optimizer);

/// Sets the rate of every parameter group. Throws UsageError when there are not as many rates as
/// groups.
void set_group_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates);

/// The rate that the optimizer was constructed with, whatever its groups have.
[[nodiscard]] double default_rate(torch::optim::Optimizer& optimizer);

}  // namespace accelerate::detail
