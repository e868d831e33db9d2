#include "accelerate/accelerator/model_core.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace accelerate::detail {

ModelCore::ModelCore(const void* module, ModuleView view,
                     std::shared_ptr<Communicator> communicator,
                     const DistributedDataParallelKwargs& kwargs, const ForwardPrecision& precision)
    : module_(module),
      view_(std::move(view)),
      precision_(precision),
      parallel_(view_, std::move(communicator), kwargs) {}

void ModelCore::before_forward() {
  parallel_.before_forward(at::GradMode::is_enabled());
}

std::vector<at::Tensor> ModelCore::parameters() const {
  std::vector<at::Tensor> tensors;
  for (const auto& item : without_duplicates(view_.parameters)) tensors.push_back(item.tensor);
  return tensors;
}

}  // namespace accelerate::detail
