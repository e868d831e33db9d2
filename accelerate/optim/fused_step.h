// Steps LibTorch's SGD, Adam, AdamW and Adagrad by fused kernels, on the optimizer's state.
#pragma once

#include <memory>

namespace torch::optim {
class Optimizer;
}

namespace accelerate::detail {

/// Replaces step() of one optimizer. The optimizer's data (options of the groups, typed state of
/// the parameters) stays the only source: each step reads it anew, and writes it where torch::optim
/// writes it. So steps of both kinds may alternate. Rates, groups, loaded state and frozen
/// parameters may change at any time. Holds no gradient between steps.
///
/// Memory for Adam's moments on the CPU is reserved before the first step, beside the parameters,
/// and filled in that step. If the first step allocated it, the moments would take the place of
/// that step's activations, and later steps would need more memory.
class FusedStep {
 public:
  /// Returns null unless `optimizer` is exactly one of the four classes: a derived class may have
  /// another step.
  [[nodiscard]] static std::unique_ptr<FusedStep> of(const torch::optim::Optimizer& optimizer);

  FusedStep() = default;
  virtual ~FusedStep() = default;
  FusedStep(const FusedStep&) = delete;
  FusedStep& operator=(const FusedStep&) = delete;

  /// Steps on the gradients that exist. Gradients that no kernel takes (sparse, complex, 16-bit,
  /// transposed, …) are left to the optimizer's step(). `optimizer` has the type that of() saw.
  /// Cost: beside the kernels, a fraction of a microsecond per parameter, and no allocation once
  /// the state exists.
  virtual void run(torch::optim::Optimizer& optimizer) = 0;
  /// Frees reserved memory that no step has filled, for parameters that have become shards.
  virtual void drop_places() = 0;
};

}  // namespace accelerate::detail
