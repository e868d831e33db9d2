// A loss that does not trust labels fully.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "accelerate/transformers/models/model_output.h"

namespace accelerate {

/// Computes cross-entropy against smoothed labels, in place of a model's own loss. A share
/// `epsilon` of each label is spread evenly over all classes.
/// Source: Szegedy et al. 2015; `LabelSmoother` of Transformers.
struct LabelSmoother {
  double epsilon = 0.1;
  /// Labels of this value are ignored.
  std::int64_t ignore_index = -100;

  /// output.logits: {…, C}; labels: int64 {…}. `shift_labels`: for causal language models, whose
  /// tokens each predict the next one. `num_items_in_batch`: {}, the divisor of the sum; if
  /// undefined, the number of labels that are not ignored. Returns {}; NaN if all labels are
  /// ignored. Throws UsageError for a label that is neither a class nor ignored, and for labels of
  /// another shape.
  [[nodiscard]] at::Tensor operator()(const ModelOutput& output, const at::Tensor& labels,
                                      bool shift_labels = false,
                                      const at::Tensor& num_items_in_batch = {}) const;
};

}  // namespace accelerate
