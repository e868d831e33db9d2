// LibTorch's own schedules as ours, so that they can be prepared. They do not tell which optimizer
// they belong to: get_last_lr() therefore shows the rates of all optimizers given here.
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

/// The rates of the optimizers that a schedule may belong to.
using RatesOf = std::function<std::vector<double>()>;

/// Its state is the count of its steps.
[[nodiscard]] std::shared_ptr<LRScheduler> adapt(
    std::shared_ptr<torch::optim::LRScheduler> scheduler, RatesOf rates);

/// Its state cannot be read: state_dict() is a UsageError that names our ReduceLROnPlateau.
[[nodiscard]] std::shared_ptr<LRScheduler> adapt(
    std::shared_ptr<torch::optim::ReduceLROnPlateauScheduler> scheduler, RatesOf rates);

}  // namespace accelerate::detail
