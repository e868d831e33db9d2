// The optimizer that DeepSpeed's files call Muon: Muon for some groups, Adam for the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "accelerate/optim/algorithms/algorithm.h"
#include "accelerate/optim/clips_updates.h"
#include "accelerate/optim/whole_matrix_optimizer.h"

namespace accelerate {

/// Options of a group of MuonWithAuxAdam. The defaults are those of DeepSpeed's class.
struct MuonWithAuxAdamOptions : public AlgorithmOptions<MuonWithAuxAdamOptions> {
  static constexpr const char* kOptimizer = "MuonWithAuxAdam";
  MuonWithAuxAdamOptions() = default;
  explicit MuonWithAuxAdamOptions(bool use_muon);
  using betas_t = std::tuple<double, double>;
  TORCH_ARG(bool, use_muon) = true;            ///< Muon, or else Adam.
  TORCH_ARG(double, lr) = 0.02;                ///< 3e-4 for Adam.
  TORCH_ARG(double, weight_decay) = 0;         ///< A step shrinks parameters by lr * weight_decay.
  TORCH_ARG(double, momentum) = 0.95;          ///< Muon: how much of the average a step keeps.
  TORCH_ARG(std::string, ns_method) = "gram";  ///< Muon: "gram" or "standard".
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.95);  ///< Adam: how much of the averages.
  TORCH_ARG(double, eps) = 1e-10;                          ///< Adam: term of the denominator.
  TORCH_ARG(bool, adam_w_mode) = true;  ///< Adam: false adds weight decay to the gradient.

 public:
  template <typename Field>
  void visit(Field& field) {
    field("use_muon", use_muon_);
    field("lr", lr_);
    field("weight_decay", weight_decay_);
    if (use_muon_) {
      field("momentum", momentum_);
      field("ns_method", ns_method_);
    } else {
      field("betas", betas_);
      field("eps", eps_);
      field("adam_w_mode", adam_w_mode_);
    }
  }
  /// Throws ConfigError for negative numbers, betas of 1 or more, and another ns_method.
  void check() const;
  [[nodiscard]] double get_lr() const override { return lr(); }
  void set_lr(double lr) override { this->lr(lr); }
};

/// What MuonWithAuxAdam remembers of a parameter; each tensor is shaped as the parameter.
struct MuonWithAuxAdamParamState : public AlgorithmParamState<MuonWithAuxAdamParamState> {
  TORCH_ARG(std::int64_t, step) = 0;       ///< Adam: steps made.
  TORCH_ARG(at::Tensor, momentum_buffer);  ///< Muon: the average of gradients.
  TORCH_ARG(at::Tensor, exp_avg);          ///< Adam: the same.
  TORCH_ARG(at::Tensor, exp_avg_sq);       ///< Adam: the average of their squares.

 public:
  template <typename Field>
  void visit(Field& field) {
    field("step", step_);
    field("momentum_buffer", momentum_buffer_);
    field("exp_avg", exp_avg_);
    field("exp_avg_sq", exp_avg_sq_);
  }
};

/// Muon and Adam in one optimizer, as DeepSpeed 0.19 computes them. A step of a group of Muon is
///
///   m = momentum * m + (1 - momentum) * g;  u = momentum * m + (1 - momentum) * g
///   p *= 1 - lr * weight_decay;  p -= lr * max(1, rows / columns)^½ * O(u)
///
/// O makes five Newton–Schulz iterations. "gram" makes them in fp16, on the smaller of u uᵀ and
/// uᵀ u, and once begins anew from u; "standard" makes those of Muon, in bf16. Tensors of four
/// dimensions are matrices with as many rows as their first; of other tensors the last two
/// dimensions are a matrix, and the others count matrices. As in DeepSpeed, rows and columns of the
/// factor are the last two dimensions, parameters without a gradient have one of zeros, and a step
/// leaves u's update in the gradients of Muon's groups.
///
/// With clips_updates(true), DeepSpeed's way under ZeRO 1 to 3, an Accelerator clips O(u) and
/// Adam's gradients together; otherwise the gradients. It may be prepared with a sharded model: see
/// WholeMatrixOptimizer; parts travel in their own type. Memory of a step: five times the largest
/// matrix. Sources: DeepSpeed, deepspeed/runtime/zero/muon; Dao et al. 2026, "Gram Newton–Schulz".
class MuonWithAuxAdam : public Algorithm<MuonWithAuxAdamOptions, MuonWithAuxAdamParamState>,
                        public WholeMatrixOptimizer,
                        public ClipsUpdates {
 public:
  /// Throws as Algorithm does, and UsageError for parameters of Muon with fewer than two
  /// dimensions, or of complex numbers.
  explicit MuonWithAuxAdam(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                           MuonWithAuxAdamOptions defaults = {});
  explicit MuonWithAuxAdam(std::vector<at::Tensor> params, MuonWithAuxAdamOptions defaults = {});

  /// Adds a group as Algorithm does. Throws as the constructor.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  void clip_updates(bool clips) { clips_updates_ = clips; }
  [[nodiscard]] bool clips_updates() const override { return clips_updates_; }
  void take_updates() override;
  void forget_updates() override { has_updates_ = false; }

  /// Throws UsageError for sparse gradients. [collective over parts of a sharded model]
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  bool clips_updates_ = false;
  bool has_updates_ = false;  // Whether gradients of Muon's groups are updates.
};

}  // namespace accelerate
