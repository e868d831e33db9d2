// What a batch says of classes: the likeliest class and the label of each place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accelerate/trainer/metrics/metric.h"

namespace accelerate::detail {

/// The class of each place, int64 on the CPU, shaped as the labels: `batch.classes` if defined;
/// else the greatest of the last dimension of predictions {…, C}, the first one of equals; else the
/// predictions themselves, if integers and shaped as the labels. Throws UsageError for other shapes
/// and dtypes.
[[nodiscard]] at::Tensor likeliest_classes(const MetricBatch& batch);

/// The number of classes: `known` if positive, else the last dimension of predictions {…, C}, else
/// 0 for unknown. Throws UsageError if both are there and differ.
[[nodiscard]] std::int64_t class_count(const MetricBatch& batch, std::int64_t known);

/// Labels, int64 on the CPU, contiguous. Throws UsageError for those that are no integers, and,
/// with its row, for a label that is neither -100 nor one of `classes` classes. `classes` 0:
/// unknown; the greatest number that is allowed then is kMostClasses − 1.
[[nodiscard]] at::Tensor checked_labels(const MetricBatch& batch, std::int64_t classes);

/// How many classes there may be when nobody says it: a count for each class is kept.
inline constexpr std::int64_t kMostClasses = std::int64_t{1} << 24;

/// Places that take part, in order: all whose label is not -100.
struct LabelledClasses {
  std::vector<std::int64_t> labels, predicted;
};

/// The labelled places of `batch`, all within the number of classes. `classes`: if the caller knows
/// it, else 0. Throws UsageError as the functions above.
[[nodiscard]] LabelledClasses labelled_classes(const MetricBatch& batch, std::int64_t classes = 0);

/// Throws UsageError if no label was counted; `what`: the name of the metric.
void require_samples(std::int64_t samples, const std::string& what);

}  // namespace accelerate::detail
