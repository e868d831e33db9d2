#include "accelerate/tensor/compat/interception.h"

#include <torch/library.h>

#include <array>

namespace accelerate::compat {
namespace {

// LibTorch reserves this key for deferred construction of modules, but does not use it. It has
// precedence over autocast and autograd, so each operator is seen once and as a whole.
constexpr auto kKey = c10::DispatchKey::DeferredInit;

thread_local std::array<Interceptor*, kLayers> active{};

// A thread of autograd takes the key over from its caller, but no layers.
void pass_layers(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const WithoutInterception once;
  InterceptedCall(op, *stack, 0).proceed();
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&pass_layers>());
}

}  // namespace

void InterceptedCall::proceed() const {
  std::size_t layer = layer_;
  while (layer < kLayers && active[layer] == nullptr) ++layer;
  if (layer == kLayers) return op_.callBoxed(&stack_);
  active[layer]->intercept({op_, stack_, layer + 1});
}

InterceptionScope::InterceptionScope(Layer layer, Interceptor& interceptor)
    : layer_(layer), outer_(active[static_cast<std::size_t>(layer)]), guard_(kKey) {
  active[static_cast<std::size_t>(layer)] = &interceptor;
}

InterceptionScope::~InterceptionScope() {
  active[static_cast<std::size_t>(layer_)] = outer_;
}

WithoutInterception::WithoutInterception() : guard_(kKey) {}

}  // namespace accelerate::compat
