// Loads states in two steps, so that many objects are loaded only if all of them can be.
#pragma once

#include <functional>

namespace accelerate {

/// A state that was read and fits its object. The object has not changed yet.
struct CheckedState {
  std::function<void()> load;  ///< Loads the state into the object. Call it at most once.
  /// The object's class is a user's, and only this class knows what fits: load() may throw.
  bool may_refuse = false;
};

}  // namespace accelerate
