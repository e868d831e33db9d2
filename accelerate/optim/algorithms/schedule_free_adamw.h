// AdamW that needs no schedule: it averages its own steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include <torch/arg.h>
#include <torch/optim/optimizer.h>

#include "accelerate/optim/modal_optimizer.h"

namespace accelerate {

/// Options of ScheduleFreeAdamW, and what it remembers of a group of parameters. The defaults are
/// those of the Python package schedulefree.
struct ScheduleFreeAdamWOptions
    : public torch::optim::OptimizerCloneableOptions<ScheduleFreeAdamWOptions> {
  ScheduleFreeAdamWOptions(double lr = 0.0025);  // NOLINT(google-explicit-constructor)
  using betas_t = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 0.0025;
  /// The first says how near the parameters stay to the average of all steps, the second how much
  /// of the squared gradients' average is kept.
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;              ///< Added to the root of the second moment.
  TORCH_ARG(double, weight_decay) = 0;        ///< Added to the normed gradient, times parameter.
  TORCH_ARG(std::int64_t, warmup_steps) = 0;  ///< Steps in which the rate rises to lr.
  TORCH_ARG(double, r) = 0;                   ///< Step k weighs k^r in the average.
  TORCH_ARG(double, weight_lr_power) = 2;     ///< And the greatest rate so far to this power.
  TORCH_ARG(std::int64_t, k) = 0;             ///< Progress: steps made.
  TORCH_ARG(bool, train_mode) = false;        ///< Progress: which values the parameters hold.
  TORCH_ARG(double, weight_sum) = 0;          ///< Progress: sum of the weights of all steps.
  TORCH_ARG(double, lr_max) = -1;             ///< Progress: greatest rate so far.
  TORCH_ARG(double, scheduled_lr) = 0;        ///< Rate of the last step, for logs.

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  [[nodiscard]] double get_lr() const override { return lr(); }
  void set_lr(double lr) override { this->lr(lr); }
};

/// What ScheduleFreeAdamW remembers of a parameter: two tensors of its shape and dtype.
struct ScheduleFreeAdamWParamState
    : public torch::optim::OptimizerCloneableParamState<ScheduleFreeAdamWParamState> {
  TORCH_ARG(at::Tensor, z);           ///< Where plain steps without averaging lead.
  TORCH_ARG(at::Tensor, exp_avg_sq);  ///< The moving average of squared gradients.

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// Schedule-free AdamW. Steps move z; the parameters hold y, between z and the average x of all z,
/// while training, and x itself in an evaluation:
///
///   v = beta2 * v + (1 - beta2) * g²;  d = g / (sqrt(v / (1 - beta2^k)) + eps) + weight_decay * y
///   c = w_k / (w_1 + … + w_k), w_k = k^r * lr_max^weight_lr_power
///   y = y + c * (z - y) + lr * (beta1 * (1 - c) - 1) * d;  z = z - lr * d
///   eval(): y becomes x = y + (1 - 1 / beta1) * (z - y);  train(): x becomes y = x + (1 - beta1) *
///   (z - x)
///
/// Call train() before the first step and eval() before evaluations and before weights are saved;
/// of a prepared optimizer, those of the handle. It updates element by element, so that it may be
/// prepared with a sharded model. fp16 and bf16 parameters are computed in their own dtype, as in
/// the original. Gradients are read only, where the original overwrites them. Memory of a step: on
/// the CPU one copy of the largest parameter, on a GPU two of all. Source: Defazio et al. 2024,
/// "The Road Less Scheduled"; AdamWScheduleFree of the package schedulefree.
class ScheduleFreeAdamW : public torch::optim::Optimizer, public ModalOptimizer {
 public:
  /// Throws ConfigError for options out of range: betas[0] in (0, 1), betas[1] in [0, 1), the
  /// others 0 or more.
  explicit ScheduleFreeAdamW(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                             ScheduleFreeAdamWOptions defaults = {});
  explicit ScheduleFreeAdamW(std::vector<at::Tensor> params,
                             ScheduleFreeAdamWOptions defaults = {});

  /// Adds a group. Options that it brings are taken whole; without any it has the optimizer's.
  /// Throws as the constructor does.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  /// Throws UsageError outside of train(), and for sparse gradients.
  at::Tensor step(LossClosure closure = nullptr) override;
  void set_mode(OptimizerMode mode) override;
  [[nodiscard]] bool is_in(OptimizerMode mode) const override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace accelerate
