// The errors of a GradientReducer about gradients that are not as expected. Each names the
// parameters and the cure.
#pragma once

#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/parallel/gradients/bucket_store.h"

namespace accelerate::detail {

/// For a leaf without a hook that requires gradients now: they would silently stay local.
[[nodiscard]] UsageError thawed(const std::string& name);

/// For a gradient that was not expected, or came more often than expected.
[[nodiscard]] UsageError came_unexpectedly(const Slot& slot, bool static_graph);

/// For gradients that had not come when backward was over.
[[nodiscard]] UsageError stayed_away(const std::vector<std::string>& names, bool static_graph);

/// For parameters that this rank used in its first step of a static graph, which came after the
/// first step of the other ranks, and that the other ranks had not used.
[[nodiscard]] UsageError unknown_to_the_group(const std::vector<std::string>& names);

[[nodiscard]] UsageError is_sparse(const std::string& name);

}  // namespace accelerate::detail
