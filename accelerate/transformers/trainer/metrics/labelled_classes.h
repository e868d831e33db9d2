// Reads the predicted class and the label of each place in a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accelerate/transformers/trainer/metrics/metric.h"

namespace accelerate::detail {

/// Returns the predicted class of each place, int64 on the CPU, shaped as the labels. That is
/// `batch.classes` if defined. Else it is the greatest of the last dimension of predictions {…, C},
/// the first if several are equal. Else it is the predictions themselves, if they are integers
/// shaped as the labels. Throws UsageError for other shapes and dtypes.
[[nodiscard]] at::Tensor likeliest_classes(const MetricBatch& batch);

/// Returns the number of classes: `known` if positive, else the last dimension of predictions {…,
/// C}, else 0 for unknown. Throws UsageError if both numbers are there and differ.
[[nodiscard]] std::int64_t class_count(const MetricBatch& batch, std::int64_t known);

/// Returns the labels, int64 on the CPU, contiguous. Throws UsageError for labels that are not
/// integers. Throws it, with the row, for a label that is neither -100 nor one of `classes`
/// classes. `classes` 0: unknown; then the greatest allowed label is kMostClasses − 1.
[[nodiscard]] at::Tensor checked_labels(const MetricBatch& batch, std::int64_t classes);

/// The greatest allowed number of classes if their number is not known: each class has a count.
inline constexpr std::int64_t kMostClasses = std::int64_t{1} << 24;

/// The places that take part, in order: all whose label is not -100.
struct LabelledClasses {
  std::vector<std::int64_t> labels, predicted;
};

/// Returns the labelled places of `batch`, all within the number of classes. `classes`: the number,
/// if the caller knows it, else 0. Throws UsageError as the functions above do.
[[nodiscard]] LabelledClasses labelled_classes(const MetricBatch& batch, std::int64_t classes = 0);

/// Throws UsageError if no label was counted. `what`: the name of the metric.
void require_samples(std::int64_t samples, const std::string& what);

}  // namespace accelerate::detail
