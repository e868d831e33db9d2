// Removes parameters that an optimizer lists more than once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace accelerate::detail {

/// A parameter that was listed in two places of an optimizer's groups.
struct ListedTwice {
  struct Place {
    std::size_t group = 0, index = 0;
  };
  std::string optimizer;  ///< Its class.
  at::Tensor parameter;
  Place first;    ///< Where it stays.
  Place dropped;  ///< The place it was removed from, numbered as before.
};

/// Returns a sentence about `tie`. `names` are the names under which a model registered the
/// parameter. With fewer than two names, the sentence gives its places.
[[nodiscard]] std::string warning_of(const ListedTwice& tie, const std::vector<std::string>& names);

/// Leaves every parameter in the first of its places in the groups of `optimizer`. Returns the
/// parameters that had other places. Module::parameters() of LibTorch lists a tied weight under
/// each of its names, and every listing would be a separate step. Options and state do not change.
/// Local. Throws UsageError for an LBFGS that has stepped, whose state is as long as the old list.
/// Source: Module.parameters() and Optimizer.add_param_group of PyTorch, which list each parameter
/// once.
std::vector<ListedTwice> list_once(torch::optim::Optimizer& optimizer);

}  // namespace accelerate::detail
