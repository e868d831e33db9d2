// Chooses the modules of a model that are computed again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/config/fsdp_options.h"
#include "accelerate/parallel/recompute/gradient_checkpointing.h"
#include "accelerate/parallel/recompute/recorder.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// Returns the plan of GradientCheckpointing::units and `every`. The units come in the order in which
/// modules were registered; the first stands for all that is outside of the chosen ones. Throws
/// ConfigError if nothing is chosen, a class or name is not in the model, or `every` is below 1.
[[nodiscard]] RecomputePlan plan_recompute(const ModuleView& view,
                                           const GradientCheckpointing& options,
                                           const std::optional<ResolvedFsdpOptions>& sharding);

}  // namespace accelerate::detail
