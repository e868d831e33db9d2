// Parameters that an optimizer was given more than once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace accelerate::detail {

/// A parameter that stood in two places of an optimizer's groups.
struct ListedTwice {
  struct Place {
    std::size_t group = 0, index = 0;
  };
  std::string optimizer;  ///< Its class.
  at::Tensor parameter;
  Place first;    ///< Where it stays.
  Place dropped;  ///< Where it was too, by the numbers of before.
};

/// A sentence about it. `names` are those that a model registered it under; where there are fewer
/// than two it goes by its places.
[[nodiscard]] std::string warning_of(const ListedTwice& tie, const std::vector<std::string>& names);

/// Leaves every parameter in the first of its places in the groups of `optimizer`, and returns
/// those that had others: Module::parameters() of LibTorch lists a tied weight under each of its
/// names, and every listing would be a step of its own. Options and state stay as they are. Local.
/// Throws UsageError for an LBFGS that has stepped, whose state is as long as the old list. Source:
/// Module.parameters() and Optimizer.add_param_group of PyTorch, which list each once.
std::vector<ListedTwice> list_once(torch::optim::Optimizer& optimizer);

}  // namespace accelerate::detail
