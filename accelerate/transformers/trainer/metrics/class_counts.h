// The predicted class and the label of each place in a batch, and counts of each class, from which
// all scores of classes follow.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accelerate/comm/communicator.h"
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

/// Three counts for each class. Memory: 24 bytes a class. Local except for over_all_ranks().
class ClassCounts {
 public:
  /// `classes`: the number of classes; 0: as the batches say.
  explicit ClassCounts(std::int64_t classes = 0) : classes_(classes) {}

  void reset();
  /// Adds the places of `batch` whose label is not -100. Throws UsageError as labelled_classes()
  /// does.
  void update(const MetricBatch& batch);
  /// Returns the sums over all ranks, which may have seen different numbers of classes.
  /// [collective]
  [[nodiscard]] ClassCounts over_all_ranks(Communicator& communicator) const;

  /// For each class i, the number of places where it is label and prediction, where it is the
  /// prediction, and where it is the label.
  [[nodiscard]] const std::vector<std::int64_t>& hits() const { return hits_; }
  [[nodiscard]] const std::vector<std::int64_t>& predicted() const { return predicted_; }
  [[nodiscard]] const std::vector<std::int64_t>& labelled() const { return labelled_; }
  /// The number of all places.
  [[nodiscard]] std::int64_t samples() const;

 private:
  void make_room(std::int64_t classes);

  std::int64_t classes_;
  std::vector<std::int64_t> hits_, predicted_, labelled_;
};

/// Returns the sums of `values` over all ranks. Ranks may bring different lengths; missing values
/// count as 0. [collective]
[[nodiscard]] std::vector<std::int64_t> sum_over_ranks(Communicator& communicator,
                                                       std::vector<std::int64_t> values);

}  // namespace accelerate::detail
