#include "accelerate/accelerator/model_core.h"

#include <ATen/core/grad_mode.h>

#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"

namespace accelerate::detail {

ModelCore::ModelCore(const void* module, ModuleView view, ParallelModel parallel,
                     const ForwardPrecision& precision)
    : module_(module),
      view_(std::move(view)),
      precision_(precision),
      parallel_(std::move(parallel)) {}

void ModelCore::before_forward() {
  if (const auto failure = parallel_.engine->take_failure()) std::rethrow_exception(failure);
  parallel_.engine->before_forward(at::GradMode::is_enabled());
}

// The engine's explanation of a failure says more than the operator's exception.
void ModelCore::rethrow_cause() {
  if (const auto failure = parallel_.engine->take_failure()) std::rethrow_exception(failure);
  throw;
}

at::Tensor ModelCore::in_input_type(const at::Tensor& tensor) const {
  return tensor.defined() && tensor.is_floating_point() ? tensor.to(*precision_.input) : tensor;
}

at::Tensor ModelCore::in_output_type(const at::Tensor& tensor) const {
  if (!precision_.output) return detail::to_fp32(tensor);
  return tensor.defined() && tensor.is_floating_point() ? tensor.to(*precision_.output) : tensor;
}

std::vector<at::Tensor> ModelCore::parameters() const {
  return tensors_of(view_.parameters);
}

std::vector<at::Tensor> ModelCore::gradient_holders() const {
  std::vector<at::Tensor> holders;
  std::unordered_set<const void*> seen;  // Tensors over the same memory have one part.
  for (const auto& parameter : parameters()) {
    at::Tensor holder = parallel_.parts->local_parameter(parameter);
    if (seen.insert(holder.unsafeGetTensorImpl()).second) holders.push_back(std::move(holder));
  }
  return holders;
}

const std::shared_ptr<DistributedDataParallel>& ModelCore::replicas(
    const std::string& feature) const {
  if (parallel_.replicas) return parallel_.replicas;
  throw UsageError(feature + " needs a model that every rank has whole, and " + view_.class_name +
                   " is sharded (FSDP): train it without fsdp_plugin, or do not use " + feature);
}

void throw_not_prepared() {
  throw UsageError(
      "a Prepared model is empty: assign to it what accelerator.prepare(net) returns before it is "
      "used",
      error_name::kNotPrepared);
}

}  // namespace accelerate::detail
