// What the options of an Accelerator and its launcher's variables decide together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerator/options.h"
#include "accelerate/comm/state/gradient_state.h"
#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/resolved_deepspeed.h"
#include "accelerate/optim/accelerated_scheduler.h"
#include "accelerate/optim/deepspeed_optimizers.h"

namespace accelerate::detail {

/// Returns the type that the program asks for, else its launcher.
[[nodiscard]] MixedPrecision precision_of(const AcceleratorOptions& options);

/// Settings of DeepSpeed under the name of their plugin; "" if the plugin has none.
struct NamedDeepSpeed {
  std::string name;
  DeepSpeedPlugin plugin;
  ResolvedDeepSpeed settings;
};

/// Returns what DeepSpeed's settings decide, a row for each plugin; none unless the program or its
/// launcher asks for DeepSpeed. Throws ConfigError as resolve_deepspeed(), for FSDP beside a plugin
/// for DeepSpeed, and for plugins that differ in precision or loss scale.
[[nodiscard]] std::vector<NamedDeepSpeed> deepspeeds_of(const AcceleratorOptions& options,
                                                        int ranks);

/// Returns how gradients accumulate. Throws ConfigError for contradictions within the program.
/// Warns where the program's steps lose.
[[nodiscard]] GradientAccumulationPlugin accumulation_of(
    const AcceleratorOptions& options, const std::optional<ResolvedDeepSpeed>& deepspeed);

/// Returns how models are sharded, by FSDP or by DeepSpeed's ZeRO; nullopt if they are not.
[[nodiscard]] std::optional<ResolvedFsdpOptions> sharding_of(
    const AcceleratorOptions& options, const std::optional<ResolvedDeepSpeed>& deepspeed,
    MixedPrecision precision);

/// Returns the program's settings of the loss scaler if it has any, else those of DeepSpeed's file.
[[nodiscard]] GradScalerKwargs scaling_of(const GradScalerKwargs& program,
                                          const std::optional<ResolvedDeepSpeed>& deepspeed);

/// Returns `given`; for a DummyOptim the optimizer that DeepSpeed's file describes. Throws
/// ConfigError if both the file and the program have one, or neither, and as
/// DummyOptim::made_from(), which gets `find`.
[[nodiscard]] torch::optim::Optimizer& real_optimizer(
    torch::optim::Optimizer& given, const std::optional<ResolvedDeepSpeed>& deepspeed,
    const FindParameter& find);

/// Returns the schedule that DeepSpeed's file describes if `given` is a DummyScheduler, else
/// nullptr. Throws as real_optimizer().
[[nodiscard]] std::shared_ptr<LRScheduler> real_schedule(
    const AcceleratedScheduler::Given& given, const std::optional<ResolvedDeepSpeed>& deepspeed,
    int ranks);

/// Warns if the first loader's batch of this rank, `samples`, is not what DeepSpeed's file says.
void compare_batch(std::int64_t samples, const std::optional<ResolvedDeepSpeed>& deepspeed);

/// Warns of options for DistributedDataParallel if models are sharded, and for torch.compile, which
/// LibTorch does not have.
void warn_of_what_has_no_effect(const AcceleratorOptions& options, bool sharded);

}  // namespace accelerate::detail
