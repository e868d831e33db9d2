// Adapts LibTorch's schedules to ours, so that they can be prepared. They do not tell which
// optimizer they belong to, so get_last_lr() returns the rates of all optimizers given here.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "accelerate/optim/lr_scheduler.h"

namespace torch::optim {
class LRScheduler;
class ReduceLROnPlateauScheduler;
}  // namespace torch::optim

namespace accelerate::detail {

/// Returns the rates of the optimizers that a schedule may belong to.
using RatesOf = std::function<std::vector<double>()>;

/// Adapts a schedule whose state is its number of steps.
[[nodiscard]] std::shared_ptr<LRScheduler> adapt(
    std::shared_ptr<torch::optim::LRScheduler> scheduler, RatesOf rates);

/// Adapts a schedule whose state cannot be read: state_dict() throws a UsageError that names our
/// ReduceLROnPlateau.
[[nodiscard]] std::shared_ptr<LRScheduler> adapt(
    std::shared_ptr<torch::optim::ReduceLROnPlateauScheduler> scheduler, RatesOf rates);

}  // namespace accelerate::detail
