#include "accelerate/tensor/construction/init_on_device.h"

#include "accelerate/base/environment.h"
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

}  // namespace accelerate
