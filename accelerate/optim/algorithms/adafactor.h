// Adafactor: keeps the second moments of a matrix as the product of a row and a column.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "accelerate/optim/algorithms/algorithm.h"

namespace accelerate {

/// Options of Adafactor. The defaults are taken from transformers.optimization.Adafactor, which
/// computes its rate from the step. The Trainer sets a rate instead:
/// AdafactorOptions(5e-5).scale_parameter(false).relative_step(false).
struct AdafactorOptions : public AlgorithmOptions<AdafactorOptions> {
  static constexpr const char* kOptimizer = "Adafactor";
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
  template <typename Field>
  void visit(Field& field) {
    field("lr", lr_);
    field("eps", eps_);
    field("clip_threshold", clip_threshold_);
    field("decay_rate", decay_rate_);
    field("beta1", beta1_);
    field("weight_decay", weight_decay_);
    field("scale_parameter", scale_parameter_);
    field("relative_step", relative_step_);
    field("warmup_init", warmup_init_);
  }
  /// Throws ConfigError for a rate together with relative_step, and for no rate or warmup_init
  /// without relative_step. Also throws it for beta1 outside [0, 1), a clip_threshold that is not
  /// positive, a positive decay_rate, and other negative options.
  void check() const;
  /// Throws UsageError if there is no rate that a schedule could change.
  [[nodiscard]] double get_lr() const override;
  void set_lr(double lr) override { this->lr(lr); }
};

/// What Adafactor remembers of a parameter; in fp32 for fp16 and bf16 parameters. Tensors that the
/// shape and the options do not need are undefined.
struct AdafactorParamState : public AlgorithmParamState<AdafactorParamState> {
  TORCH_ARG(std::int64_t, step) = 0;      ///< Steps made.
  TORCH_ARG(at::Tensor, exp_avg);         ///< Average of updates, of the parameter's shape.
  TORCH_ARG(at::Tensor, exp_avg_sq_row);  ///< 2 or more dimensions: shape without the last.
  TORCH_ARG(at::Tensor, exp_avg_sq_col);  ///< 2 or more dimensions: shape without the last but one.
  TORCH_ARG(at::Tensor, exp_avg_sq);      ///< Fewer dimensions: of the parameter's shape.
  TORCH_ARG(at::Tensor, RMS);             ///< Shape {}: root mean square of the parameter.

 public:
  template <typename Field>
  void visit(Field& field) {
    field("step", step_);
    field("exp_avg", exp_avg_);
    field("exp_avg_sq_row", exp_avg_sq_row_);
    field("exp_avg_sq_col", exp_avg_sq_col_);
    field("exp_avg_sq", exp_avg_sq_);
    field("RMS", RMS_);
  }
};

/// Adafactor with all options of transformers.optimization.Adafactor. Memory beside the parameters:
/// a row and a column per matrix. It needs whole matrices, so it cannot be prepared with a sharded
/// model. fp16 and bf16 parameters are computed in fp32 and rounded once. With scale_parameter a
/// step reads one number per parameter, for which a GPU must wait. Source: Shazeer and Stern 2018,
/// "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost".
class Adafactor : public Algorithm<AdafactorOptions, AdafactorParamState> {
 public:
  using Algorithm::Algorithm;

  /// Throws UsageError for sparse gradients.
  at::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace accelerate
