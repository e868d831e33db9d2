// Handles weights that have several names in a model, and that optimizers therefore list several
// times.
#pragma once

#include <vector>

#include "accelerate/optim/listed_once.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// Makes optimizers list tied weights once, and warns about them by their names in a model. Model
/// and optimizer may be prepared in either order.
class TiedParameters {
 public:
  /// Makes `optimizer` list each of its parameters once. Throws as list_once().
  void list_once_in(torch::optim::Optimizer& optimizer);
  /// Warns about the tied weights that `model` has.
  void name_by(const ModuleView& model);
  /// Warns about the tied weights that no model has, by their places in the optimizer.
  void warn_of_rest();

 private:
  std::vector<ListedTwice> unnamed_;
};

}  // namespace accelerate::detail
