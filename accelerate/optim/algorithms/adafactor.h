// Adafactor: keeps the second moments of a matrix as the product of a row and a column.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include <torch/arg.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

/// Options of Adafactor. The defaults are taken from transformers.optimization.Adafactor, which
/// computes its rate from the step. The Trainer sets a rate instead:
/// AdafactorOptions(5e-5).scale_parameter(false).relative_step(false).
struct AdafactorOptions : public torch::optim::OptimizerCloneableOptions<AdafactorOptions> {
  AdafactorOptions(std::optional<double> lr = std::nullopt);  // NOLINT(google-explicit-constructor)
  using eps_t = std::tuple<double, double>;
  TORCH_ARG(std::optional<double>, lr) = std::nullopt;  ///< Unset with relative_step.
  /// Added to squared gradients, and the least root mean square that scale_parameter assumes.
  TORCH_ARG(eps_t, eps) = std::make_tuple(1e-30, 1e-3);
  TORCH_ARG(double, clip_threshold) = 1;  ///< Bound on the root mean square of an update.
  /// In step t the second moments keep the fraction 1 - t^decay_rate of their old values.
  TORCH_ARG(double, decay_rate) = -0.8;
  TORCH_ARG(std::optional<double>, beta1) = std::nullopt;  ///< If set: averages updates.
  TORCH_ARG(double, weight_decay) = 0;      ///< A step shrinks parameters by rate * weight_decay.
  TORCH_ARG(bool, scale_parameter) = true;  ///< Multiplies the rate by the parameter's RMS.
  TORCH_ARG(bool, relative_step) = true;    ///< Computes the rate from the number of steps.
  TORCH_ARG(bool, warmup_init) = false;     ///< With relative_step: the rate begins at 1e-6.

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  /// Throws UsageError if there is no rate that a schedule could change.
  [[nodiscard]] double get_lr() const override;
  void set_lr(double lr) override { this->lr(lr); }
};

/// What Adafactor remembers of a parameter; in fp32 for fp16 and bf16 parameters. Tensors that the
/// shape and the options do not need are undefined.
struct AdafactorParamState
    : public torch::optim::OptimizerCloneableParamState<AdafactorParamState> {
  TORCH_ARG(std::int64_t, step) = 0;      ///< Steps made.
  TORCH_ARG(at::Tensor, exp_avg);         ///< Average of updates, of the parameter's shape.
  TORCH_ARG(at::Tensor, exp_avg_sq_row);  ///< 2 or more dimensions: shape without the last.
  TORCH_ARG(at::Tensor, exp_avg_sq_col);  ///< 2 or more dimensions: shape without the last but one.
  TORCH_ARG(at::Tensor, exp_avg_sq);      ///< Fewer dimensions: of the parameter's shape.
  TORCH_ARG(at::Tensor, RMS);             ///< Shape {}: root mean square of the parameter.

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// Adafactor with all options of transformers.optimization.Adafactor. Memory beside the parameters:
/// a row and a column per matrix. It needs whole matrices, so it cannot be prepared with a sharded
/// model. fp16 and bf16 parameters are computed in fp32 and rounded once. With scale_parameter a
/// step reads one number per parameter, for which a GPU must wait. Source: Shazeer and Stern 2018,
/// "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost".
class Adafactor : public torch::optim::Optimizer {
 public:
  /// Throws ConfigError for a rate together with relative_step, and for no rate or warmup_init
  /// without relative_step. Also throws it for beta1 outside [0, 1), a clip_threshold that is not
  /// positive, a positive decay_rate, and other negative options.
  explicit Adafactor(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                     AdafactorOptions defaults = {});
  explicit Adafactor(std::vector<at::Tensor> params, AdafactorOptions defaults = {});

  /// Adds a group. The group's options replace the optimizer's entirely; a group without options
  /// gets the optimizer's. Throws as the constructor does.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  /// Throws UsageError for sparse gradients.
  at::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace accelerate
