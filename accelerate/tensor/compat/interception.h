// The one stack of layers that see the operators a program calls, before autocast and autograd do.
// docs/decisions/interception.md says what each layer sees, costs, and may assume of the others.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <cstdint>

namespace accelerate::compat {

/// The layers, outermost first. A layer passes a call on to the layer below it; the last one runs
/// the operator.
enum class Layer : std::uint8_t {
  construction,  ///< Chooses where tensors are made, and defers those without memory.
  recompute,     ///< Notes the operators of a unit, so that backward can run them again.
};
inline constexpr std::size_t kLayers = 2;

/// A call of an operator, on its way through the layers.
class InterceptedCall {
 public:
  InterceptedCall(const c10::OperatorHandle& op, torch::jit::Stack& stack, std::size_t layer)
      : op_(op), stack_(stack), layer_(layer) {}

  [[nodiscard]] const c10::OperatorHandle& op() const { return op_; }
  /// Its last values are the arguments, and, after the call, the results.
  [[nodiscard]] torch::jit::Stack& stack() const { return stack_; }
  [[nodiscard]] c10::ArrayRef<c10::IValue> arguments() const {
    return torch::jit::last(stack_, op_.schema().arguments().size());
  }
  [[nodiscard]] c10::ArrayRef<c10::IValue> results() const {
    return torch::jit::last(stack_, op_.schema().returns().size());
  }
  /// Runs the operator, by the layers below.
  void proceed() const;

 private:
  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  std::size_t layer_;
};

/// Takes part in every call of an operator while an InterceptionScope is alive.
class Interceptor {
 public:
  virtual ~Interceptor() = default;
  /// Takes the arguments from call.stack() and leaves the results there; call.proceed() does that.
  /// Operators that this function calls itself pass no layer. May throw.
  virtual void intercept(const InterceptedCall& call) = 0;
};

/// While alive, the operators that the calling thread calls pass `interceptor`. An operator that
/// another operator calls is not seen; nor are the operators of backward. Of several scopes of one
/// layer the innermost counts. Must stay on its thread. Cost: nothing outside of scopes, 0.1 µs an
/// operator inside, and what the layer does.
class InterceptionScope {
 public:
  InterceptionScope(Layer layer, Interceptor& interceptor);
  ~InterceptionScope();
  InterceptionScope(const InterceptionScope&) = delete;
  InterceptionScope& operator=(const InterceptionScope&) = delete;

 private:
  Layer layer_;
  Interceptor* outer_;
  c10::impl::IncludeDispatchKeyGuard guard_;
};

/// While alive, operators of the calling thread pass no layer.
class WithoutInterception {
 public:
  WithoutInterception();
  WithoutInterception(const WithoutInterception&) = delete;
  WithoutInterception& operator=(const WithoutInterception&) = delete;

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace accelerate::compat
