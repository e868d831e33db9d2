#include "accelerate/transformers/trainer/metrics/perplexity.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>

#include "accelerate/base/error.h"
#include "accelerate/comm/operations.h"
#include "accelerate/transformers/models/losses.h"
#include "accelerate/transformers/trainer/metrics/class_counts.h"

namespace accelerate {
namespace {

// How many elements of logits are turned into losses at a time: their softmax takes 64 MB in
// float32.
constexpr std::int64_t kPerplexityElements = std::int64_t{1} << 24;

[[noreturn]] void throw_perplexity_shapes(const std::string& found) {
  throw UsageError("a perplexity cannot be computed from " + found +
                   "; allowed are logits with a last dimension of classes more than the labels, or "
                   "float losses of the labels' shape");
}

std::string sizes_text(const at::Tensor& tensor) {
  return tensor.defined() ? c10::str(tensor.sizes()) : "undefined";
}

bool has_logits(const at::Tensor& predictions, const at::Tensor& labels) {
  return predictions.dim() == labels.dim() + 1 &&
         predictions.sizes().slice(0, labels.dim()) == labels.sizes();
}

void check_perplexity_shapes(const MetricBatch& batch) {
  const at::Tensor &predictions = batch.predictions, &labels = batch.labels;
  if (predictions.defined() && labels.defined() && predictions.is_floating_point() &&
      labels.dim() > 0 &&
      (has_logits(predictions, labels) || predictions.sizes() == labels.sizes()))
    return;
  throw_perplexity_shapes("predictions " + sizes_text(predictions) + " and labels " +
                          sizes_text(labels));
}

// Turns half precision into float32, so that sums of exponentials keep their digits.
at::Tensor at_least_single(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

}  // namespace

void Perplexity::update(const MetricBatch& batch) {
  check_perplexity_shapes(batch);
  const at::Tensor predictions = batch.predictions.detach();
  if (!has_logits(predictions, batch.labels)) {
    // With losses instead of logits the number of classes is not known.
    return add_losses(predictions, detail::checked_labels(batch, 0));
  }
  const at::Tensor labels = detail::checked_labels(batch, predictions.size(-1));
  if (!options_.shift_labels) return add_logits(predictions, labels);
  if (labels.dim() < 2)
    throw_perplexity_shapes(
        "labels of one dimension with shift_labels, which takes rows of tokens");
  if (labels.size(-1) == 0) return;
  // Moves the labels, not the logits: a slice of the logits would be copied nearly whole.
  const at::Tensor moved = labels.slice(/*dim=*/-1, 1);
  add_logits(predictions, at::constant_pad_nd(moved, {0, 1}, detail::kIgnoredLabel));
}

void Perplexity::add_logits(const at::Tensor& logits, const at::Tensor& labels) {
  const std::int64_t classes = logits.size(-1);
  const at::Tensor rows = logits.reshape({-1, classes});
  const at::Tensor targets = labels.reshape({-1});
  const std::int64_t step =
      std::max<std::int64_t>(1, kPerplexityElements / std::max<std::int64_t>(1, classes));
  double sum = 0;
  for (std::int64_t first = 0; first < rows.size(0); first += step) {
    const std::int64_t end = std::min(first + step, rows.size(0));
    const at::Tensor losses = at::cross_entropy_loss(
        at_least_single(rows.slice(0, first, end)), targets.slice(0, first, end).to(rows.device()),
        /*weight=*/{}, at::Reduction::None, detail::kIgnoredLabel);
    sum += losses.sum(at::kDouble).item<double>();
  }
  sum_ += sum;
  tokens_ += (targets != detail::kIgnoredLabel).sum().item<std::int64_t>();
}

void Perplexity::add_losses(const at::Tensor& losses, const at::Tensor& labels) {
  const at::Tensor counts = labels != detail::kIgnoredLabel;
  const at::Tensor exact = losses.to(at::kCPU, at::kDouble);
  // An ignored place may hold anything, NaN too.
  sum_ += at::where(counts, exact, 0.0).sum().item<double>();
  tokens_ += counts.sum().item<std::int64_t>();
}

Metrics Perplexity::compute(Communicator& communicator) const {
  const at::Tensor own = at::tensor({sum_, static_cast<double>(tokens_)}, at::kDouble);
  const at::Tensor sums = reduce(communicator, own, ReduceOp::sum);
  const auto* values = sums.const_data_ptr<double>();
  detail::require_samples(static_cast<std::int64_t>(values[1]), options_.name);
  return {{options_.name, std::exp(values[0] / values[1])}};
}

}  // namespace accelerate
