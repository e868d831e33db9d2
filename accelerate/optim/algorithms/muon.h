// Muon: takes steps of which every direction of a matrix has about the same length.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "accelerate/optim/algorithms/algorithm.h"
#include "accelerate/optim/whole_matrix_optimizer.h"

namespace accelerate {

/// Options of Muon. The defaults are those of torch.optim.Muon.
struct MuonOptions : public AlgorithmOptions<MuonOptions> {
  static constexpr const char* kOptimizer = "Muon";
  MuonOptions(double lr = 1e-3);  // NOLINT(google-explicit-constructor): as LibTorch's options
  using ns_coefficients_t = std::tuple<double, double, double>;
  TORCH_ARG(double, lr) = 1e-3;           ///< Times what adjust_lr_fn makes of a matrix's shape.
  TORCH_ARG(double, weight_decay) = 0.1;  ///< A step shrinks parameters by lr * weight_decay.
  TORCH_ARG(double, momentum) = 0.95;     ///< How much of the average of gradients a step keeps.
  TORCH_ARG(bool, nesterov) = true;       ///< Averages the gradient in once more for the step.
  /// a, b and c of an iteration X -> a X + b (X Xᵀ) X + c (X Xᵀ)² X.
  TORCH_ARG(ns_coefficients_t, ns_coefficients) = std::make_tuple(3.4445, -4.7750, 2.0315);
  TORCH_ARG(double, eps) = 1e-7;          ///< The least norm by which a matrix is divided.
  TORCH_ARG(std::int64_t, ns_steps) = 5;  ///< Iterations, 0 to 99.
  /// How a matrix of shape {m, n} changes the rate. "original", or unset: times max(1, m / n)^½.
  /// "match_rms_adamw": times 0.2 max(m, n)^½, so that the rates and weight decay of AdamW suit.
  TORCH_ARG(std::optional<std::string>, adjust_lr_fn) = std::nullopt;

 public:
  template <typename Field>
  void visit(Field& field) {
    field("lr", lr_);
    field("weight_decay", weight_decay_);
    field("momentum", momentum_);
    field("nesterov", nesterov_);
    field("ns_coefficients", ns_coefficients_);
    field("eps", eps_);
    field("ns_steps", ns_steps_);
    field("adjust_lr_fn", adjust_lr_fn_);
  }
  /// Throws ConfigError for negative numbers, 100 or more steps, and another adjust_lr_fn.
  void check() const;
  [[nodiscard]] double get_lr() const override { return lr(); }
  void set_lr(double lr) override { this->lr(lr); }
};

/// What Muon remembers of a parameter.
struct MuonParamState : public AlgorithmParamState<MuonParamState> {
  TORCH_ARG(at::Tensor, momentum_buffer);  ///< The average of gradients, shaped as the parameter.

 public:
  template <typename Field>
  void visit(Field& field) {
    field("momentum_buffer", momentum_buffer_);
  }
};

/// Muon with decoupled weight decay, for matrices alone: other parameters need an optimizer of
/// their own, such as AdamW. For a matrix p with gradient g and average m a step is
///
///   m = momentum * m + (1 - momentum) * g
///   u = momentum * m + (1 - momentum) * g with nesterov, else m
///   p *= 1 - lr * weight_decay;  p -= lr * adjust_lr_fn(shape) * O(u)
///
/// O divides u by its norm and makes `ns_steps` Newton–Schulz iterations, in bf16. These bring the
/// singular values near 1, and leave the singular vectors. A matrix that is higher than wide is
/// iterated transposed.
///
/// It may be prepared with a sharded model: see WholeMatrixOptimizer. Parts travel in bf16. Memory
/// of a step: in bf16 three times the largest matrix, and twice a square of its shorter side.
/// Sources: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; Liu et
/// al. 2025, "Muon is Scalable for LLM Training". State and results equal torch.optim.Muon.
class Muon : public Algorithm<MuonOptions, MuonParamState>, public WholeMatrixOptimizer {
 public:
  /// Throws as Algorithm does, and UsageError for parameters that are no real matrices.
  explicit Muon(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                MuonOptions defaults = {});
  explicit Muon(std::vector<at::Tensor> params, MuonOptions defaults = {});

  /// Adds a group as Algorithm does. Throws as the constructor.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  /// Throws UsageError for sparse gradients. [collective over parts of a sharded model]
  at::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace accelerate
