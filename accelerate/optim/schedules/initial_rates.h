// The learning rates from which schedules start.
#pragma once

#include <memory>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace accelerate::detail {

/// The rates that the optimizer had before any schedule. PyTorch keeps them as `initial_lr` in a
/// parameter group, for which LibTorch's groups have no room. All schedules of an optimizer share
/// them.
struct InitialRates {
  std::vector<double> initial;   ///< One per parameter group.
  std::vector<double> last_set;  ///< What a schedule wrote last.
};

/// Returns the record of `optimizer`. A new record begins with the present rates. The record of
/// earlier schedules is reused while the groups hold the same parameters and the rates that these
/// schedules wrote. So an optimizer at a reused address, or with rates that were set by hand since,
/// gets a new record. Added groups begin with their present rate. Thread-safe. Cost: a look-up. A
/// record is kept until its parameters are gone.
[[nodiscard]] std::shared_ptr<InitialRates> initial_rates_of(torch::optim::Optimizer& optimizer);

/// Returns the rate of every parameter group. Throws UsageError if the optimizer's options have
/// none.
[[nodiscard]] std::vector<double> group_rates(torch::optim::Optimizer& optimizer);

/// Sets the rate of every parameter group. Throws UsageError unless there are as many rates as
/// groups.
void set_group_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates);

/// Returns the rate that the optimizer was constructed with, whatever rates its groups have.
[[nodiscard]] double default_rate(torch::optim::Optimizer& optimizer);

}  // namespace accelerate::detail
