// Loading in two steps, so that many objects are loaded only when all of them can be.
#pragma once

#include <functional>

namespace accelerate {

/// A state that was read and found to fit its object, which has not changed yet.
struct CheckedState {
  std::function<void()> load;  ///< Gives it to the object; at most once.
  /// Its object is of a class of the user's, which alone knows what fits: load() may throw.
  bool may_refuse = false;
};

}  // namespace accelerate
