// Lion: takes steps of one size, in the direction of the sign of a moving average.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "accelerate/optim/algorithms/algorithm.h"

namespace accelerate {

/// Options of Lion. The defaults are those of bitsandbytes.
struct LionOptions : public AlgorithmOptions<LionOptions> {
  static constexpr const char* kOptimizer = "Lion";
  LionOptions(double lr = 1e-4);  // NOLINT(google-explicit-constructor): as LibTorch's options
  using betas_t = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 1e-4;  ///< How far every element moves in a step.
  /// How much of the average is kept: to compute a step's direction, and from step to step.
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.99);
  TORCH_ARG(double, weight_decay) = 0;  ///< A step shrinks parameters by lr * weight_decay.

 public:
  template <typename Field>
  void visit(Field& field) {
    field("lr", lr_);
    field("betas", betas_);
    field("weight_decay", weight_decay_);
  }
  /// Throws ConfigError unless betas are in [0, 1) and the other options 0 or more.
  void check() const;
  [[nodiscard]] double get_lr() const override { return lr(); }
  void set_lr(double lr) override { this->lr(lr); }
};

/// What Lion remembers of a parameter.
struct LionParamState : public AlgorithmParamState<LionParamState> {
  TORCH_ARG(std::int64_t, step) = 0;  ///< Steps made.
  /// The moving average of gradients, of the parameter's shape; fp32 for fp16 and bf16 parameters.
  TORCH_ARG(at::Tensor, state1);

 public:
  template <typename Field>
  void visit(Field& field) {
    field("step", step_);
    field("state1", state1_);
  }
};

/// Lion with decoupled weight decay. For a parameter p, its gradient g and average m a step is
///
///   p *= 1 - lr * weight_decay;  p -= lr * sign(beta1 * m + (1 - beta1) * g)
///   m = beta2 * m + (1 - beta2) * g
///
/// It updates element by element, so it may be prepared with a sharded model. fp16 and bf16
/// parameters are computed in fp32 and rounded once. Memory of a step: a copy of the largest
/// parameter on the CPU, a copy of all parameters on a GPU.
/// Source: Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms". State and results
/// equal bitsandbytes' 32-bit Lion.
class Lion : public Algorithm<LionOptions, LionParamState> {
 public:
  using Algorithm::Algorithm;

  /// Throws UsageError for sparse gradients.
  at::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace accelerate
