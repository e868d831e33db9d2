#include "accelerate/tensor/construction/init_on_device.h"

#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/deferred_init.h"

namespace accelerate {
namespace {

bool buffers_too(const InitOptions& options) {
  if (options.include_buffers) return *options.include_buffers;
  return env_flag("ACCELERATE_INIT_INCLUDE_BUFFERS", false);
}

}  // namespace

InitScope::InitScope(c10::Device device, const InitOptions& options)
    : scope_(std::make_unique<compat::FactoryScope>(device, buffers_too(options))) {}

InitScope::~InitScope() = default;

InitScope init_empty_weights(const InitOptions& options) {
  return {c10::kMeta, options};
}

InitScope init_on_device(c10::Device device, const InitOptions& options) {
  return {device, options};
}

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
