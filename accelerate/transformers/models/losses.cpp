#include "accelerate/transformers/models/losses.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>

#include "accelerate/base/error.h"

namespace accelerate::detail {

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

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                         const at::Tensor& num_items, std::int64_t ignored) {
  check_count(logits, labels);
  const at::Tensor targets = labels.to(logits.device(), at::kLong);
  check_labels(logits, targets, ignored);
  const bool is_sum = num_items.defined();
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
