// The step of LibTorch's SGD, Adam, AdamW and Adagrad by fused kernels, on the optimizer's own
// state.
#pragma once

#include <memory>

namespace torch::optim {
class Optimizer;
}

namespace accelerate::detail {

/// Takes over step() of one optimizer. What torch::optim keeps (options of the groups, typed state
/// of the parameters) stays the only truth: it is read anew in every step and written where
/// torch::optim writes it. So steps of both kinds may alternate, and learning rates, groups,
/// loaded state and frozen parameters need no notice. Between steps it holds no gradient.
///
/// Adam's moments on the CPU get their place in memory before the first step, beside the
/// parameters, and are memory when that step fills them: made by it, they would lie where its
/// activations were, and those of later steps would need another place.
class FusedStep {
 public:
  /// Null unless `optimizer` is exactly one of the four: a class derived from one has a step of its
  /// own.
  [[nodiscard]] static std::unique_ptr<FusedStep> of(const torch::optim::Optimizer& optimizer);

  FusedStep() = default;
  virtual ~FusedStep() = default;
  FusedStep(const FusedStep&) = delete;
  FusedStep& operator=(const FusedStep&) = delete;

  /// One step on the gradients that are there; those that no kernel takes (sparse, complex, 16-bit,
  /// transposed, …) are left to the optimizer's own step(). `optimizer` is of the type that of()
  /// saw. Cost: beside the kernels, a fraction of a microsecond for each parameter and no
  /// allocation once the state exists.
  virtual void run(torch::optim::Optimizer& optimizer) = 0;
  /// Gives places up that no step has filled: of parameters that have become shards.
  virtual void drop_places() = 0;
};

}  // namespace accelerate::detail
