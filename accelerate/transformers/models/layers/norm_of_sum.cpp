#include "accelerate/transformers/models/layers/norm_of_sum.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>

#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/kernels/kernels.h"

namespace accelerate::detail {
namespace {

using layer_kernels::Size;

// --- Operators: engines that fetch weights see them

layer_kernels::NormTypes types_of(const at::Tensor& x, const at::Tensor& sum) {
  if (sum.scalar_type() == at::kBFloat16) return layer_kernels::kBothBFloat16;
  return x.scalar_type() == at::kFloat ? layer_kernels::kBothFloat32
                                       : layer_kernels::kBFloat16AndFloat32;
}

// The address of a row of `width` elements.
const void* row_of(const at::Tensor& rows, std::int64_t row, std::int64_t width) {
  return static_cast<const char*>(rows.const_data_ptr()) +
         row * width * static_cast<std::int64_t>(rows.element_size());
}
void* row_to(at::Tensor& rows, std::int64_t row, std::int64_t width) {
  return static_cast<char*>(rows.mutable_data_ptr()) +
         row * width * static_cast<std::int64_t>(rows.element_size());
}
const bool* kept_of(const std::optional<at::Tensor>& mask, std::int64_t row, std::int64_t width) {
  return mask ? mask->const_data_ptr<bool>() + row * width : nullptr;
}

// Returns the norm, the sum, and {2, rows}: the means, and the reciprocals of the deviations.
std::tuple<at::Tensor, at::Tensor, at::Tensor> compute_norm(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
    const at::Tensor& bias, const std::optional<at::Tensor>& mask, double factor, double epsilon) {
  at::Tensor y = at::empty_like(residual), sum = at::empty_like(residual);
  const std::int64_t width = weight.numel(), rows = x.numel() / width;
  at::Tensor moments = at::empty({2, rows}, x.options().dtype(at::kFloat));
  auto* const means = moments.mutable_data_ptr<float>();
  const auto loop = layer_kernels::loops().norm_of_sum[types_of(x, sum)];
  constexpr std::int64_t kElementsAtOnce = 1 << 14;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsAtOnce / width);
  at::parallel_for(0, rows, grain, [&](std::int64_t begin, std::int64_t end) {
    loop({.x = row_of(x, begin, width),
          .residual = row_of(residual, begin, width),
          .weight = weight.const_data_ptr(),
          .bias = bias.const_data_ptr(),
          .keep = kept_of(mask, begin, width),
          .factor = static_cast<float>(factor),
          .epsilon = static_cast<float>(epsilon),
          .sum = row_to(sum, begin, width),
          .y = row_to(y, begin, width),
          .mean = means + begin,
          .rstd = means + rows + begin,
          .rows = static_cast<Size>(end - begin),
          .width = static_cast<Size>(width)});
  });
  return {y, sum, moments};
}

// Returns the gradients of x, the residual, the weight and the bias. Adds up the last two in blocks
// of rows, so that they do not depend on the number of threads.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> compute_norm_backward(
    const at::Tensor& given_by, const at::Tensor& sum, const at::Tensor& moments,
    const at::Tensor& weight, const std::optional<at::Tensor>& mask, double factor,
    at::ScalarType type) {
  constexpr std::int64_t kRowsAtOnce = 64;
  const at::Tensor by = given_by.contiguous();
  const std::int64_t width = weight.numel(), rows = sum.numel() / width;
  const std::int64_t blocks = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
  at::Tensor by_sum = at::empty_like(sum);
  const bool is_same = !mask && type == sum.scalar_type();
  at::Tensor by_x = is_same ? by_sum : at::empty_like(sum, sum.options().dtype(type));
  at::Tensor parts = at::zeros({blocks, 2, width}, moments.options());
  auto* const by_parameters = parts.mutable_data_ptr<float>();
  const auto* const means = moments.const_data_ptr<float>();
  const auto loop = layer_kernels::loops().norm_of_sum_backward[types_of(by_x, sum)];
  at::parallel_for(0, blocks, 1, [&](std::int64_t block, std::int64_t end) {
    for (; block < end; ++block) {
      const std::int64_t begin = block * kRowsAtOnce;
      loop({.by = row_of(by, begin, width),
            .sum = row_of(sum, begin, width),
            .weight = weight.const_data_ptr(),
            .mean = means + begin,
            .rstd = means + rows + begin,
            .keep = kept_of(mask, begin, width),
            .factor = static_cast<float>(factor),
            .by_sum = row_to(by_sum, begin, width),
            .by_x = is_same ? nullptr : row_to(by_x, begin, width),
            .by_weight = by_parameters + 2 * block * width,
            .by_bias = by_parameters + (2 * block + 1) * width,
            .rows = static_cast<Size>(std::min(kRowsAtOnce, rows - begin)),
            .width = static_cast<Size>(width)});
    }
  });
  const at::Tensor sums = parts.sum(0).to(weight.scalar_type());
  return {by_x, by_sum, sums[0], sums[1]};
}

TORCH_LIBRARY_FRAGMENT(accelerate, library) {
  library.def(
      "norm_of_sum(Tensor x, Tensor residual, Tensor weight, Tensor bias, Tensor? mask, "
      "float factor, float epsilon) -> (Tensor, Tensor, Tensor)");
  library.def(
      "norm_of_sum_backward(Tensor by, Tensor sum, Tensor moments, Tensor weight, Tensor? mask, "
      "float factor, ScalarType type) -> (Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(accelerate, CPU, library) {
  library.impl("norm_of_sum", compute_norm);
  library.impl("norm_of_sum_backward", compute_norm_backward);
}

// --- Autograd

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct NormSpec {
  double p, epsilon;
};

// The factor of dropout, rounded as LibTorch rounds it.
double factor_of(double p, at::ScalarType type) {
  const float factor = 1.0F / static_cast<float>(1 - p);
  return type == at::kBFloat16 ? static_cast<float>(at::BFloat16(factor)) : factor;
}

// The sum is an output too, so that gradients of gradients reach what it was made of.
struct NormOfSum : torch::autograd::Function<NormOfSum> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& residual, const at::Tensor& weight,
                               const at::Tensor& bias, const NormSpec& spec) {
    static const auto kOperator = c10::Dispatcher::singleton()
                                      .findSchemaOrThrow("accelerate::norm_of_sum", "")
                                      .typed<decltype(compute_norm)>();
    const std::optional<at::Tensor> mask =
        spec.p > 0 ? std::optional(bernoulli_mask(x, 1 - spec.p)) : std::nullopt;
    auto [y, sum, moments] = kOperator.call(x, residual, weight, bias, mask,
                                            factor_of(spec.p, x.scalar_type()), spec.epsilon);
    context->save_for_backward({sum, moments, weight, bias, mask.value_or(at::Tensor())});
    context->saved_data["p"] = spec.p;
    context->saved_data["epsilon"] = spec.epsilon;
    context->saved_data["type"] = x.scalar_type();
    context->set_materialize_grads(false);
    return {y, sum};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto kOperator = c10::Dispatcher::singleton()
                                      .findSchemaOrThrow("accelerate::norm_of_sum_backward", "")
                                      .typed<decltype(compute_norm_backward)>();
    if (at::GradMode::is_enabled() || gradients[1].defined()) return by_steps(context, gradients);
    if (!gradients[0].defined()) return variable_list(5);
    const auto saved = context->get_saved_variables();
    const auto type = context->saved_data["type"].toScalarType();
    const at::Tensor &sum = saved[0], &moments = saved[1], &weight = saved[2], &mask = saved[4];
    auto [by_x, by_residual, by_weight, by_bias] = kOperator.call(
        gradients[0], sum, moments, weight, mask.defined() ? std::optional(mask) : std::nullopt,
        factor_of(context->saved_data["p"].toDouble(), type), type);
    return {by_x, by_residual, by_weight, by_bias, {}};
  }

  // LibTorch's steps, whose gradients LibTorch knows.
  static variable_list by_steps(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &sum = saved[0], &weight = saved[2], &bias = saved[3], &mask = saved[4];
    at::Tensor by_sum = gradients[1], by_weight, by_bias;
    if (gradients[0].defined()) {
      const auto shape = weight.sizes();
      const auto [y, mean, rstd] = at::native_layer_norm(sum, shape, weight, bias,
                                                         context->saved_data["epsilon"].toDouble());
      const auto found = at::native_layer_norm_backward(gradients[0], sum, shape, mean, rstd,
                                                        weight, bias, {true, true, true});
      by_sum = by_sum.defined() ? by_sum + std::get<0>(found) : std::get<0>(found);
      by_weight = std::get<1>(found);
      by_bias = std::get<2>(found);
    }
    if (!by_sum.defined()) return variable_list(5);
    const at::Tensor by_x = by_sum.to(context->saved_data["type"].toScalarType());
    return {mask.defined() ? kept_of_dropout(by_x, mask, 1 - context->saved_data["p"].toDouble())
                           : by_x,
            by_sum,
            by_weight,
            by_bias,
            {}};
  }
};

bool has_kernel_for(const torch::nn::LayerNormImpl& norm, const at::Tensor& x,
                    const at::Tensor& residual) {
  if (!layer_kernels::are_vectorised() || !norm.weight.defined() || !norm.bias.defined())
    return false;
  const auto type = residual.scalar_type();
  const auto is_plain = [](const at::Tensor& tensor) {
    return tensor.device().is_cpu() && tensor.is_contiguous();
  };
  const bool are_types =
      (type == at::kFloat && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16)) ||
      (type == at::kBFloat16 && x.scalar_type() == at::kBFloat16);
  return are_types && norm.weight.scalar_type() == type && norm.bias.scalar_type() == type &&
         is_plain(x) && is_plain(residual) && is_plain(norm.weight) && is_plain(norm.bias) &&
         x.sizes() == residual.sizes() && x.numel() > 0 && norm.weight.dim() == 1 &&
         norm.bias.sizes() == norm.weight.sizes() && x.size(-1) == norm.weight.size(0);
}

}  // namespace

at::Tensor norm_of_sum(torch::nn::LayerNorm& norm, const at::Tensor& x, const at::Tensor& residual,
                       double p) {
  if (p >= 1 || !has_kernel_for(*norm, x, residual))
    return norm(dropout_of(x, p, p > 0) + residual);
  return NormOfSum::apply(x, residual, norm->weight, norm->bias,
                          NormSpec{p, norm->options.eps()})[0];
}

}  // namespace accelerate::detail
