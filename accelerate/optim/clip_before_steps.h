// Clipping that the launcher's file asks for, so that a loop need not know of it.
#pragma once

#include <functional>

namespace accelerate {

class AcceleratedOptimizer;

namespace detail {

/// From now on runs `clip` on the complete gradients before each step of `optimizer`; with a
/// closure, whenever the closure has computed them. Null ends that.
void clip_before_steps(const AcceleratedOptimizer& optimizer, std::function<void()> clip);

}  // namespace detail
}  // namespace accelerate
