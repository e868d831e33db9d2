// Counts of each class, from which all scores of classes follow.
#pragma once

#include <cstdint>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/transformers/trainer/metrics/metric.h"

namespace accelerate::detail {

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
