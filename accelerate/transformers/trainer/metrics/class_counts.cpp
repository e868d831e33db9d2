#include "accelerate/transformers/trainer/metrics/class_counts.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

#include "accelerate/comm/operations.h"
#include "accelerate/transformers/trainer/metrics/labelled_classes.h"

namespace accelerate::detail {

void ClassCounts::reset() {
  hits_.clear();
  predicted_.clear();
  labelled_.clear();
}

void ClassCounts::make_room(std::int64_t classes) {
  const auto wanted = static_cast<std::size_t>(classes);
  if (wanted <= hits_.size()) return;
  hits_.resize(wanted);
  predicted_.resize(wanted);
  labelled_.resize(wanted);
}

void ClassCounts::update(const MetricBatch& batch) {
  const LabelledClasses kept = labelled_classes(batch, classes_);
  for (std::size_t i = 0; i < kept.labels.size(); ++i) {
    const std::int64_t label = kept.labels[i], guess = kept.predicted[i];
    make_room(std::max(label, guess) + 1);
    ++labelled_[label];
    ++predicted_[guess];
    if (label == guess) ++hits_[label];
  }
}

std::int64_t ClassCounts::samples() const {
  return std::accumulate(labelled_.begin(), labelled_.end(), std::int64_t{0});
}

ClassCounts ClassCounts::over_all_ranks(Communicator& communicator) const {
  ClassCounts sums(classes_);
  sums.hits_ = sum_over_ranks(communicator, hits_);
  sums.predicted_ = sum_over_ranks(communicator, predicted_);
  sums.labelled_ = sum_over_ranks(communicator, labelled_);
  return sums;
}

std::vector<std::int64_t> sum_over_ranks(Communicator& communicator,
                                         std::vector<std::int64_t> values) {
  const auto own = static_cast<std::int64_t>(values.size());
  const at::Tensor most = reduce(communicator, at::tensor({own}, at::kLong), ReduceOp::max);
  values.resize(static_cast<std::size_t>(most.item<std::int64_t>()));
  if (values.empty()) return values;
  const at::Tensor sums = reduce(communicator, at::tensor(values, at::kLong), ReduceOp::sum);
  const auto* first = sums.const_data_ptr<std::int64_t>();
  return {first, first + sums.numel()};
}

}  // namespace accelerate::detail
