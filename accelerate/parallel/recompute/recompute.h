// Gradient checkpointing of any module: LibTorch's or TorchScript's, unmodified.
//
// The operators of a unit are recorded while it runs. What autograd would save in the unit is
// dropped; when backward asks for it, the operators run again. The module's own code runs once.
// docs/decisions/recompute.md says why, and what that can and cannot see.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/launch/config/fsdp_options.h"
#include "accelerate/parallel/recompute/gradient_checkpointing.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {
namespace detail {

class Recorder;
struct RecomputePlan;

/// While alive, the calling thread's operators are recorded. Does nothing where gradients are off.
class RecomputeScope {
 public:
  /// Throws UsageError while a step is recorded as a CUDA graph.
  explicit RecomputeScope(const RecomputePlan& plan);
  /// Everything is one unit of this name.
  explicit RecomputeScope(const std::string& unit);
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  class Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace detail

/// What of a model is computed again.
class Recompute {
 public:
  /// `sharding`: the settings of FSDP, whose units are the default. Throws ConfigError if `options`
  /// choose no module, name one that does not exist, or are out of range.
  Recompute(const ModuleView& view, const GradientCheckpointing& options,
            const std::optional<ResolvedFsdpOptions>& sharding);
  ~Recompute();
  Recompute(const Recompute&) = delete;
  Recompute& operator=(const Recompute&) = delete;

  /// The names of the modules that are computed again, in the order of registration.
  [[nodiscard]] std::vector<std::string> units() const;
  [[nodiscard]] const detail::RecomputePlan& plan() const { return *plan_; }

 private:
  std::unique_ptr<const detail::RecomputePlan> plan_;
};

/// Returns function(inputs…), whose gradients backward computes by running its operators again: what
/// they would save is not kept. `function` runs once. If gradients are off, it is only called. Works
/// in any module, under any strategy. Backward throws UsageError if the operators do not give what
/// they gave before. Cost: a second forward. Source: torch.utils.checkpoint; Chen et al., "Training
/// Deep Nets with Sublinear Memory Cost", 2016.
template <typename Function, typename... Inputs>
decltype(auto) checkpoint(Function&& function, Inputs&&... inputs) {
  const detail::RecomputeScope scope("the function that checkpoint() was given");
  return std::forward<Function>(function)(std::forward<Inputs>(inputs)...);
}

}  // namespace accelerate
