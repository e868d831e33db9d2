#include "accelerate/transformers/models/losses.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/layers/kernels/kernels.h"

namespace accelerate::detail {

at::Tensor in_fp32(const at::Tensor& logits) {
  return at::isReducedFloatingType(logits.scalar_type()) ? logits.to(at::kFloat) : logits;
}

// LibTorch's own check says "Target 9 is out of bounds" on a CPU, and breaks the context of a GPU.
void check_labels(const at::Tensor& logits, const at::Tensor& labels, std::int64_t ignored) {
  if (!labels.device().is_cpu() || labels.numel() == 0) return;
  const at::Tensor whole = labels.contiguous();
  const auto* values = whole.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < whole.numel(); ++i) {
    if (values[i] == ignored || (values[i] >= 0 && values[i] < logits.size(-1))) continue;
    throw UsageError("the label " + std::to_string(values[i]) + " was given; allowed are 0 to " +
                     std::to_string(logits.size(-1) - 1) + ", as the model has " +
                     std::to_string(logits.size(-1)) + " classes, and " + std::to_string(ignored) +
                     " for none");
  }
}

// Throws UsageError unless there is one label for each row of the logits. LibTorch's own error says
// only that two sizes differ.
void check_count(const at::Tensor& logits, const at::Tensor& labels) {
  if (labels.numel() * logits.size(-1) == logits.numel()) return;
  throw UsageError(std::to_string(labels.numel()) + " labels were given for " +
                   std::to_string(logits.numel() / logits.size(-1)) +
                   " rows of logits; a whole number for each row is allowed. Where a row has "
                   "several classes at once, give floating-point labels of shape " +
                   c10::str(logits.sizes()) + ", 0 or 1 for each class");
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// --- Operators for many classes: LibTorch writes the logarithms of all shares, and their gradients

// Returns the sum of the losses, {}, and {N, 2}: the logarithm of each row's sum, in two parts.
std::tuple<at::Tensor, at::Tensor> sum_losses(const at::Tensor& logits, const at::Tensor& labels,
                                              std::int64_t ignored) {
  const std::int64_t rows = logits.size(0), classes = logits.size(1);
  at::Tensor sums = at::empty({rows, 2}, logits.options());
  auto* const parts = sums.mutable_data_ptr<float>();
  const auto* const values = logits.const_data_ptr<float>();
  const auto* const label = labels.const_data_ptr<std::int64_t>();
  std::vector<double> losses(static_cast<std::size_t>(rows));
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (label[row] == ignored) continue;
      const float* const of_row = values + row * classes;
      const auto sum =
          layer_kernels::loops().log_sum_exp({of_row, static_cast<layer_kernels::Size>(classes)});
      parts[2 * row] = sum.largest;
      parts[2 * row + 1] = sum.rest;
      losses[row] = static_cast<double>(sum.largest) - of_row[label[row]] + sum.rest;
    }
  });
  double total = 0;
  for (const double loss : losses) total += loss;
  return {at::scalar_tensor(total, logits.options()), sums};
}

at::Tensor sum_losses_backward(const at::Tensor& by, const at::Tensor& logits,
                               const at::Tensor& labels, const at::Tensor& sums,
                               std::int64_t ignored) {
  const std::int64_t rows = logits.size(0), classes = logits.size(1);
  at::Tensor gradient = at::empty_like(logits);
  const auto* const parts = sums.const_data_ptr<float>();
  const auto* const label = labels.const_data_ptr<std::int64_t>();
  const auto* const values = logits.const_data_ptr<float>();
  auto* const to = gradient.mutable_data_ptr<float>();
  const float scale = *by.const_data_ptr<float>();
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* const to_row = to + row * classes;
      if (label[row] == ignored) {
        std::fill_n(to_row, classes, 0.0F);
        continue;
      }
      layer_kernels::loops().scaled_softmax(
          {{values + row * classes, static_cast<layer_kernels::Size>(classes)},
           {parts[2 * row], parts[2 * row + 1]},
           scale,
           to_row});
      to_row[label[row]] -= scale;
    }
  });
  return gradient;
}

TORCH_LIBRARY_FRAGMENT(accelerate, library) {
  library.def("sum_losses(Tensor logits, Tensor labels, int ignored) -> (Tensor, Tensor)");
  library.def(
      "sum_losses_backward(Tensor by, Tensor logits, Tensor labels, Tensor sums, int ignored) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(accelerate, CPU, library) {
  library.impl("sum_losses", sum_losses);
  library.impl("sum_losses_backward", sum_losses_backward);
}

struct SumLosses : torch::autograd::Function<SumLosses> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& labels, std::int64_t ignored) {
    static const auto kOperator = c10::Dispatcher::singleton()
                                      .findSchemaOrThrow("accelerate::sum_losses", "")
                                      .typed<decltype(sum_losses)>();
    auto [loss, sums] = kOperator.call(logits, labels, ignored);
    context->save_for_backward({logits, labels, sums});
    context->saved_data["ignored"] = ignored;
    return loss;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto kOperator = c10::Dispatcher::singleton()
                                      .findSchemaOrThrow("accelerate::sum_losses_backward", "")
                                      .typed<decltype(sum_losses_backward)>();
    const auto saved = context->get_saved_variables();
    const at::Tensor &logits = saved[0], &labels = saved[1], &sums = saved[2];
    const std::int64_t ignored = context->saved_data["ignored"].toInt();
    if (!at::GradMode::is_enabled())
      return {kOperator.call(gradients[0], logits, labels, sums, ignored), {}, {}};
    const at::Tensor counts = labels.ne(ignored).unsqueeze(1);
    const at::Tensor places = labels.unsqueeze(1).mul(counts);
    const at::Tensor wanted = at::zeros_like(logits).scatter(1, places, 1);
    return {(at::softmax(logits, 1) - wanted) * counts * gradients[0], {}, {}};
  }
};

// Few classes are left to LibTorch.
bool have_many_classes(const at::Tensor& logits, const at::Tensor& targets) {
  constexpr std::int64_t kMany = 1024;
  return logits.device().is_cpu() && logits.scalar_type() == at::kFloat && logits.dim() == 2 &&
         targets.dim() == 1 && logits.size(1) >= kMany && logits.is_contiguous() &&
         layer_kernels::are_vectorised();
}

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                         const at::Tensor& num_items, std::int64_t ignored) {
  check_count(logits, labels);
  const at::Tensor targets = labels.to(logits.device(), at::kLong);
  check_labels(logits, targets, ignored);
  const bool is_sum = num_items.defined();
  if (have_many_classes(logits, targets)) {
    const at::Tensor sum = SumLosses::apply(logits, targets.contiguous(), ignored);
    return sum / (is_sum ? num_items.to(sum.device()) : targets.ne(ignored).sum());
  }
  const at::Tensor loss = at::cross_entropy_loss(
      logits, targets, /*weight=*/{}, is_sum ? at::Reduction::Sum : at::Reduction::Mean, ignored);
  return is_sum ? loss / num_items.to(loss.device()) : loss;
}

std::string classification_problem(const std::string& problem, std::int64_t classes,
                                   const at::Tensor& labels) {
  if (!problem.empty()) return problem;
  if (classes == 1) return "regression";
  return at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)
             ? "single_label_classification"
             : "multi_label_classification";
}

at::Tensor sequence_classification_loss(const at::Tensor& logits, const at::Tensor& labels,
                                        const std::string& problem, const at::Tensor& num_items) {
  const std::int64_t classes = logits.size(-1);
  const std::string kind = classification_problem(problem, classes, labels);
  const at::Tensor targets = labels.to(logits.device());
  if (kind == "single_label_classification")
    return cross_entropy(logits, targets.reshape({-1}), num_items);
  if (kind == "regression") {
    const at::Tensor wanted = classes == 1 ? targets.reshape({-1}) : targets;
    const at::Tensor found = classes == 1 ? logits.reshape({-1}) : logits;
    if (found.sizes() != wanted.sizes()) {  // Broadcasting them would be another loss.
      throw UsageError("labels of shape " + c10::str(labels.sizes()) +
                       " were given for logits of shape " + c10::str(logits.sizes()) +
                       "; a number for each logit is needed. Of a flattened batch, which is one "
                       "row, there is one row of logits");
    }
    return at::mse_loss(found, wanted.to(found.scalar_type()));
  }
  if (kind == "multi_label_classification") {
    if (targets.sizes() != logits.sizes())
      throw UsageError(
          "labels of several classes a row have the shape of the logits: a number for "
          "each row and class");
    return at::binary_cross_entropy_with_logits(logits, targets.to(logits.scalar_type()));
  }
  throw ConfigError("the problem_type is '" + kind +
                    "'; allowed are regression, single_label_classification and "
                    "multi_label_classification");
}

at::Tensor position_loss(const at::Tensor& logits, const at::Tensor& positions) {
  const std::int64_t outside = logits.size(1);
  return cross_entropy(logits, positions.reshape({-1}).clamp(0, outside), {}, outside);
}

at::Tensor question_answering_loss(const at::Tensor& start_logits, const at::Tensor& end_logits,
                                   const at::Tensor& start_positions,
                                   const at::Tensor& end_positions) {
  return (position_loss(start_logits, start_positions) + position_loss(end_logits, end_positions)) /
         2;
}

}  // namespace accelerate::detail
