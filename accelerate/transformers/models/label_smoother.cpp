#include "accelerate/transformers/models/label_smoother.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/log_softmax.h>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate {

at::Tensor LabelSmoother::operator()(const ModelOutput& output, const at::Tensor& labels,
                                     bool shift_labels,
                                     const at::Tensor& num_items_in_batch) const {
  at::Tensor logits = output.logits, targets = labels;
  if (!logits.defined() || targets.sizes() != logits.sizes().slice(0, logits.dim() - 1))
    throw UsageError("smoothed labels have the shape of the logits without their last dimension");
  if (shift_labels) {
    logits = logits.narrow(-2, 0, logits.size(-2) - 1);
    targets = targets.narrow(-1, 1, targets.size(-1) - 1);
  }
  targets = targets.to(logits.device(), at::kLong).unsqueeze(-1);
  detail::check_labels(logits, targets, ignore_index);
  const at::Tensor ignored = targets.eq(ignore_index);
  const at::Tensor surprise = -at::log_softmax(logits, -1);
  const at::Tensor of_label =
      at::gather(surprise, -1, targets.clamp_min(0)).masked_fill(ignored, 0);
  const at::Tensor of_all =
      surprise.sum({-1}, /*keepdim=*/true, at::kFloat).masked_fill(ignored, 0);
  const at::Tensor items = num_items_in_batch.defined() ? num_items_in_batch.to(logits.device())
                                                        : ignored.logical_not().sum();
  return (1 - epsilon) * (of_label.sum() / items) +
         epsilon * (of_all.sum() / (items * logits.size(-1)));
}

}  // namespace accelerate
