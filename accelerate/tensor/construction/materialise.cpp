#include "accelerate/tensor/construction/materialise.h"

#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/deferred_init.h"

namespace accelerate {

void materialise(const ModuleView& model, const MaterialiseOptions& options) {
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : state_dict(model)) {
    if (!tensor.is_meta()) continue;
    try {
      compat::check_deferred(tensor);
    } catch (const UsageError&) {
      throw_with_context<UsageError>(name + " of " + model.class_name + " cannot get memory");
    }
    leaves.push_back(tensor);
  }
  try {
    compat::materialise_deferred_(leaves, options.device);
  } catch (const UsageError&) {
    throw_with_context<UsageError>("the model " + model.class_name + " cannot get memory");
  }
}

void materialise(torch::nn::Module& module, const MaterialiseOptions& options) {
  materialise(view_of(module), options);
}

}  // namespace accelerate
