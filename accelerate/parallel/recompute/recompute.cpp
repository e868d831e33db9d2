#include "accelerate/parallel/recompute/recompute.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "accelerate/parallel/recompute/recomputed_units.h"
#include "accelerate/parallel/recompute/recorder.h"
#include "accelerate/tensor/compat/interception.h"
#include "accelerate/tensor/compat/saved_tensor_hooks.h"
#include "accelerate/tensor/step_recording.h"

namespace accelerate {
namespace detail {

class RecomputeScope::Recording {
 public:
  template <typename What>
  explicit Recording(const What& what)
      : recorder_(what), calls_(compat::Layer::recompute, recorder_), saved_(&recorder_) {
    refuse_in_recording("a model computes layers again (gradient checkpointing)",
                        "a replay cannot run what backward would record. Leave gradient "
                        "checkpointing out of the step");
  }

 private:
  Recorder recorder_;
  compat::InterceptionScope calls_;
  compat::SavedTensorScope saved_;
};

RecomputeScope::RecomputeScope(const RecomputePlan& plan) {
  if (at::GradMode::is_enabled()) recording_ = std::make_unique<Recording>(plan);
}

RecomputeScope::RecomputeScope(const std::string& unit) {
  if (at::GradMode::is_enabled()) recording_ = std::make_unique<Recording>(unit);
}

RecomputeScope::~RecomputeScope() = default;

}  // namespace detail

Recompute::Recompute(const ModuleView& view, const GradientCheckpointing& options,
                     const std::optional<ResolvedFsdpOptions>& sharding)
    : plan_(std::make_unique<const detail::RecomputePlan>(
          detail::plan_recompute(view, options, sharding))) {}

Recompute::~Recompute() = default;

std::vector<std::string> Recompute::units() const {
  std::vector<std::string> names;
  for (const auto& unit : plan_->units)
    if (unit.is_recomputed) names.push_back(unit.name);
  return names;
}

}  // namespace accelerate
