#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "accelerate/transformers/models/layers/linear.h"

namespace accelerate::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The numbers of the rows that are not all zero. Cost: reads a row up to its first other number.
template <typename T>
std::vector<std::int64_t> filled_rows(const at::Tensor& rows) {
  const T* row = rows.const_data_ptr<T>();
  const std::int64_t width = rows.size(1);
  std::vector<std::int64_t> filled;
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += width)
    if (std::any_of(row, row + width, [](T value) { return value != T(0); })) filled.push_back(i);
  return filled;
}

// Returns int64 {rows}; undefined if so few rows are zero that leaving them out saves nothing.
at::Tensor rows_to_compute(const at::Tensor& by) {
  constexpr std::size_t kPart = 8;
  const auto filled =
      by.scalar_type() == at::kFloat ? filled_rows<float>(by) : filled_rows<c10::BFloat16>(by);
  const auto all = static_cast<std::size_t>(by.size(0));
  if ((all - filled.size()) * kPart < all) return {};
  return at::tensor(filled, at::TensorOptions(at::kLong));
}

struct LinearOfFewGradients : torch::autograd::Function<LinearOfFewGradients> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["has_bias"] = bias.has_value();
    return at::linear(input, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    at::Tensor by = gradients[0].reshape({-1, weight.size(0)}),
               read = input.reshape({-1, weight.size(1)});
    // Gradients of gradients need all steps.
    const at::Tensor rows =
        at::GradMode::is_enabled() ? at::Tensor() : rows_to_compute(by = by.contiguous());
    if (rows.defined()) {
      by = by.index_select(0, rows);
      if (context->needs_input_grad(1)) read = read.index_select(0, rows);
    }
    variable_list found(3);
    if (context->needs_input_grad(0)) {
      const at::Tensor by_rows = at::mm(by, weight);
      found[0] =
          (rows.defined()
               ? at::zeros(read_shape(input), by_rows.options()).index_copy_(0, rows, by_rows)
               : by_rows)
              .view(input.sizes());
    }
    if (context->needs_input_grad(1)) found[1] = at::mm(by.t(), read);
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2))
      found[2] = by.sum(0);
    return found;
  }

 private:
  static std::vector<std::int64_t> read_shape(const at::Tensor& input) {
    return {input.numel() / input.size(-1), input.size(-1)};
  }
};

}  // namespace

at::Tensor linear_of_few_gradients(const at::Tensor& input, const at::Tensor& weight,
                                   const at::Tensor& bias) {
  const auto type = weight.scalar_type();
  const auto is_plain = [&](const at::Tensor& tensor) {
    return tensor.device().is_cpu() && tensor.scalar_type() == type &&
           tensor.layout() == at::kStrided;
  };
  const bool is_for_this =
      at::GradMode::is_enabled() && (type == at::kFloat || type == at::kBFloat16) &&
      is_plain(input) && is_plain(weight) && input.dim() > 1 && input.numel() > 0 &&
      input.size(-1) == weight.size(1) && (!bias.defined() || is_plain(bias)) &&
      !at::autocast::is_autocast_enabled(at::kCPU);
  const auto added = bias.defined() ? std::optional(bias) : std::nullopt;
  return is_for_this ? LinearOfFewGradients::apply(input, weight, added)
                     : at::linear(input, weight, added);
}

void expect_few_gradients(const torch::nn::Module& module) {
  for (const auto& layer : module.modules())
    if (auto* linear = layer->as<LinearImpl>()) linear->expect_few_gradients();
}

}  // namespace accelerate::detail
