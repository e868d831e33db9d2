// AdamW without a schedule: it averages its steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "accelerate/optim/algorithms/algorithm.h"
#include "accelerate/optim/modal_optimizer.h"

namespace accelerate {

/// Options of ScheduleFreeAdamW, and what it remembers of a parameter group. The defaults are taken
/// from the Python package schedulefree.
struct ScheduleFreeAdamWOptions : public AlgorithmOptions<ScheduleFreeAdamWOptions> {
  static constexpr const char* kOptimizer = "ScheduleFreeAdamW";
  ScheduleFreeAdamWOptions(double lr = 0.0025);  // NOLINT(google-explicit-constructor)
  using betas_t = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 0.0025;
  /// The first says how near the parameters stay to the average of all steps. The second says how
  /// much of the average of squared gradients is kept.
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;              ///< Added to the root of the second moment.
  TORCH_ARG(double, weight_decay) = 0;        ///< Adds weight_decay * y to d, see below.
  TORCH_ARG(std::int64_t, warmup_steps) = 0;  ///< Steps in which the rate rises to lr.
  TORCH_ARG(double, r) = 0;                   ///< Step k has the weight k^r in the average,
  TORCH_ARG(double, weight_lr_power) = 2;     ///< times the greatest rate so far to this power.
  TORCH_ARG(std::int64_t, k) = 0;             ///< Progress: steps made.
  TORCH_ARG(bool, train_mode) = false;        ///< Progress: which values the parameters hold.
  TORCH_ARG(double, weight_sum) = 0;          ///< Progress: sum of the weights of all steps.
  TORCH_ARG(double, lr_max) = -1;             ///< Progress: greatest rate so far.
  TORCH_ARG(double, scheduled_lr) = 0;        ///< The rate of the last step, for logs.

 public:
  template <typename Field>
  void visit(Field& field) {
    field("lr", lr_);
    field("betas", betas_);
    field("eps", eps_);
    field("weight_decay", weight_decay_);
    field("warmup_steps", warmup_steps_);
    field("r", r_);
    field("weight_lr_power", weight_lr_power_);
    field("k", k_);
    field("train_mode", train_mode_);
    field("weight_sum", weight_sum_);
    field("lr_max", lr_max_);
    field("scheduled_lr", scheduled_lr_);
  }
  /// Throws ConfigError unless betas[0] is in (0, 1), betas[1] in [0, 1), and the other options are
  /// 0 or more.
  void check() const;
  [[nodiscard]] double get_lr() const override { return lr(); }
  void set_lr(double lr) override { this->lr(lr); }
};

/// What ScheduleFreeAdamW remembers of a parameter: two tensors of its shape and dtype.
struct ScheduleFreeAdamWParamState : public AlgorithmParamState<ScheduleFreeAdamWParamState> {
  TORCH_ARG(at::Tensor, z);           ///< Where steps without averaging would lead.
  TORCH_ARG(at::Tensor, exp_avg_sq);  ///< The moving average of squared gradients.

 public:
  template <typename Field>
  void visit(Field& field) {
    field("z", z_);
    field("exp_avg_sq", exp_avg_sq_);
  }
};

/// Schedule-free AdamW. Steps move z. While training, the parameters hold y, which lies between z
/// and the average x of all z. In an evaluation they hold x:
///
///   v = beta2 * v + (1 - beta2) * g²;  d = g / (sqrt(v / (1 - beta2^k)) + eps) + weight_decay * y
///   c = w_k / (w_1 + … + w_k), w_k = k^r * lr_max^weight_lr_power
///   y = y + c * (z - y) + lr * (beta1 * (1 - c) - 1) * d;  z = z - lr * d
///   eval():  y becomes x = y + (1 - 1 / beta1) * (z - y)
///   train(): x becomes y = x + (1 - beta1) * (z - x)
///
/// Call train() before the first step, and eval() before evaluations and before weights are saved.
/// For a prepared optimizer, call train() and eval() of the handle. It updates element by element,
/// so it may be prepared with a sharded model. fp16 and bf16 parameters are computed in their own
/// dtype, as in the original. Gradients are only read, whereas the original overwrites them. Memory
/// of a step: a copy of the largest parameter on the CPU, two copies of all parameters on a GPU.
/// Source: Defazio et al. 2024, "The Road Less Scheduled"; AdamWScheduleFree of the package
/// schedulefree.
class ScheduleFreeAdamW : public Algorithm<ScheduleFreeAdamWOptions, ScheduleFreeAdamWParamState>,
                          public ModalOptimizer {
 public:
  using Algorithm::Algorithm;

  /// Throws UsageError if train() was not called, and for sparse gradients.
  at::Tensor step(LossClosure closure = nullptr) override;
  void set_mode(OptimizerMode mode) override;
  [[nodiscard]] bool is_in(OptimizerMode mode) const override;
};

}  // namespace accelerate
