// What a GradientReducer says when gradients are not what they were to be. Each names the
// parameters and the cure.
#pragma once

#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/parallel/gradients/bucket_store.h"

namespace accelerate::detail {

/// A leaf without a hook requires gradients, which would stay local without a word.
[[nodiscard]] UsageError thawed(const std::string& name);

/// A gradient came once more than it should have.
[[nodiscard]] UsageError came_unexpectedly(const Slot& slot, bool static_graph);

/// Backward is over, and these gradients did not come.
[[nodiscard]] UsageError stayed_away(const std::vector<std::string>& names, bool static_graph);

/// This rank's first step of a static graph, made after that of the others, uses what they do not.
[[nodiscard]] UsageError unknown_to_the_group(const std::vector<std::string>& names);

[[nodiscard]] UsageError is_sparse(const std::string& name);

}  // namespace accelerate::detail
