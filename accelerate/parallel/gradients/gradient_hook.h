// A function that runs after autograd has accumulated into a leaf's gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace accelerate::detail {

/// Calls `hook` each time `leaf.grad()` has been accumulated, on the thread of backward, after any
/// hook that the leaf had before. An exception leaves through backward. Removes the hook when
/// destroyed.
class GradientHook {
 public:
  GradientHook(at::Tensor leaf, std::function<void()> hook);
  ~GradientHook();
  GradientHook(GradientHook&& other) noexcept;
  GradientHook& operator=(GradientHook&&) = delete;

 private:
  at::Tensor leaf_;
  const void* own_ = nullptr;  // the hook that the leaf owns
};

}  // namespace accelerate::detail
