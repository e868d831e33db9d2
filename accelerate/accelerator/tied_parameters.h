// Weights that have several names in a model, and that optimizers therefore list several times.
#pragma once

#include <vector>

#include "accelerate/optim/listed_once.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// Has optimizers list tied weights once, and warns of it by the names of a model. Which of the two
/// is prepared first does not matter.
class TiedParameters {
 public:
  /// Has `optimizer` list each of its parameters once. Throws as list_once().
  void list_once_in(torch::optim::Optimizer& optimizer);
  /// Warns of those that `model` has.
  void name_by(const ModuleView& model);
  /// Warns of those that no model has, by their places in the optimizer.
  void warn_of_rest();

 private:
  std::vector<ListedTwice> unnamed_;
};

}  // namespace accelerate::detail
