// Creates the optimizer and the schedule that the arguments name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/optim/lr_scheduler.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "accelerate/transformers/trainer/trainable_model.h"

namespace accelerate {

/// The trained parameters in two groups. `decayed`: parameters with weight decay. `kept`: biases
/// and the parameters of norms, which do not decay. Source: `get_decay_parameter_names` of
/// Transformers.
struct ParameterGroups {
  std::vector<NamedTensor> decayed, kept;
};
[[nodiscard]] ParameterGroups parameter_groups(const TrainableModel& model);

/// Returns the optimizer that args.optim names, over parameter_groups(). Throws ConfigError for a
/// setting in optim_args that the optimizer does not take; the message lists the settings that it
/// takes. Throws ConfigError for a model without a trained parameter.
[[nodiscard]] std::shared_ptr<torch::optim::Optimizer> create_optimizer(
    const TrainableModel& model, const ResolvedArguments& args);

/// Returns the schedule that args.lr_scheduler_type names, over `max_steps`. Throws ConfigError.
[[nodiscard]] std::shared_ptr<LRScheduler> create_scheduler(torch::optim::Optimizer& optimizer,
                                                            const ResolvedArguments& args,
                                                            std::int64_t max_steps);

/// The number of steps in which the rate rises: args.warmup_steps, or, if that is a share, its part
/// of `max_steps`, rounded up.
[[nodiscard]] std::int64_t warmup_steps(const ResolvedArguments& args, std::int64_t max_steps);

}  // namespace accelerate
