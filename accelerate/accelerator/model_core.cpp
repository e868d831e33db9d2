#include "accelerate/accelerator/model_core.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"

namespace accelerate::detail {

ModelCore::ModelCore(const void* module, ModuleView view, std::shared_ptr<ParallelEngine> engine,
                     const ForwardPrecision& precision)
    : module_(module),
      view_(std::move(view)),
      precision_(precision),
      engine_(std::move(engine)),
      shards_(std::dynamic_pointer_cast<FullyShardedDataParallel>(engine_)) {}

void ModelCore::before_forward() {
  if (const auto failure = engine_->take_failure()) std::rethrow_exception(failure);
  engine_->before_forward(at::GradMode::is_enabled());
}

// The engine's explanation of a failure says more than the operator's exception.
void ModelCore::rethrow_cause() {
  if (const auto failure = engine_->take_failure()) std::rethrow_exception(failure);
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
  std::vector<at::Tensor> tensors;
  for (const auto& item : without_duplicates(view_.parameters)) tensors.push_back(item.tensor);
  return tensors;
}

std::vector<at::Tensor> ModelCore::gradient_holders() const {
  if (!shards_) return parameters();
  std::vector<at::Tensor> holders = shards_->local_parameters();
  for (const auto& parameter : parameters()) {
    if (!shards_->local_parameter(parameter).defined()) holders.push_back(parameter);
  }
  return holders;
}

DistributedDataParallel& ModelCore::replicated(const char* feature) const {
  if (auto* engine = dynamic_cast<DistributedDataParallel*>(engine_.get())) return *engine;
  throw UsageError(std::string(feature) + " needs a model that every rank has whole, and " +
                   view_.class_name +
                   " is sharded (FSDP): train it without fsdp_plugin, or leave this out");
}

FullyShardedDataParallel& ModelCore::sharded(const char* feature) const {
  if (shards_) return *shards_;
  throw UsageError(std::string(feature) + " is for sharded models, and every rank has all of " +
                   view_.class_name + ": give the Accelerator an fsdp_plugin");
}

}  // namespace accelerate::detail
