#include "accelerate/transformers/trainer/metrics/class_counts.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/comm/operations.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate::detail {
namespace {

bool are_classes(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

bool has_class_dimension(const MetricBatch& batch) {
  return batch.predictions.dim() == batch.labels.dim() + 1 &&
         batch.predictions.sizes().slice(0, batch.labels.dim()) == batch.labels.sizes();
}

[[noreturn]] void throw_misfit(const MetricBatch& batch) {
  std::ostringstream text;
  text << "predictions of shape " << batch.predictions.sizes() << ", "
       << batch.predictions.scalar_type() << ", and labels of shape " << batch.labels.sizes()
       << " were given; allowed are predictions with a last dimension of classes more than the "
          "labels, or integers of the labels' shape, which are classes";
  throw UsageError(text.str());
}

// Returns "row 3" for labels {B}, "row 3, token 7" for labels {B, T}.
std::string place_of(const at::Tensor& labels, std::int64_t index) {
  const std::int64_t per_row = labels.dim() > 1 ? labels.numel() / labels.size(0) : 1;
  const std::string row = "row " + std::to_string(index / per_row);
  return labels.dim() > 1 ? row + ", token " + std::to_string(index % per_row) : row;
}

[[noreturn]] void throw_no_class(const std::string& what, const std::string& place,
                                 std::int64_t classes) {
  const std::string limit = classes > 0 ? std::to_string(classes - 1) + ", as there are " +
                                              std::to_string(classes) + " classes"
                                        : std::to_string(kMostClasses - 1);
  throw UsageError("the " + what + " of " + place +
                   " of the batch is not a class; allowed are 0 to " + limit);
}

bool is_class(std::int64_t value, std::int64_t classes) {
  return value >= 0 && value < (classes > 0 ? classes : kMostClasses);
}

}  // namespace

at::Tensor likeliest_classes(const MetricBatch& batch) {
  if (batch.classes.defined()) return batch.classes;
  if (!batch.predictions.defined() || !batch.labels.defined())
    throw UsageError("a metric of classes needs predictions and labels; one of them is undefined");
  if (has_class_dimension(batch) && batch.predictions.size(-1) > 0)
    return at::argmax(batch.predictions.detach(), -1).to(at::kCPU).contiguous();
  if (batch.predictions.sizes() != batch.labels.sizes() || !are_classes(batch.predictions))
    throw_misfit(batch);
  return batch.predictions.to(at::kCPU, at::kLong).contiguous();
}

std::int64_t class_count(const MetricBatch& batch, std::int64_t known) {
  const std::int64_t found = has_class_dimension(batch) ? batch.predictions.size(-1) : 0;
  if (known > 0 && found > 0 && known != found)
    throw UsageError("the model gives " + std::to_string(found) + " classes, but the metric has " +
                     std::to_string(known) + "; both must agree");
  return known > 0 ? known : found;
}

at::Tensor checked_labels(const MetricBatch& batch, std::int64_t classes) {
  if (!are_classes(batch.labels))
    throw UsageError(std::string("labels of classes are integers; found ") +
                     at::toString(batch.labels.scalar_type()));
  const at::Tensor labels = batch.labels.to(at::kCPU, at::kLong).contiguous();
  const auto* values = labels.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    if (values[i] == kIgnoredLabel || is_class(values[i], classes)) continue;
    throw_no_class("label " + std::to_string(values[i]), place_of(labels, i), classes);
  }
  return labels;
}

LabelledClasses labelled_classes(const MetricBatch& batch, std::int64_t classes) {
  const at::Tensor predicted = likeliest_classes(batch);
  const std::int64_t count = class_count(batch, classes);
  const at::Tensor labels = checked_labels(batch, count);
  const auto* label = labels.const_data_ptr<std::int64_t>();
  const auto* guess = predicted.const_data_ptr<std::int64_t>();
  LabelledClasses kept;
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    if (label[i] == kIgnoredLabel) continue;
    if (!is_class(guess[i], count))
      throw_no_class("prediction " + std::to_string(guess[i]), place_of(labels, i), count);
    kept.labels.push_back(label[i]);
    kept.predicted.push_back(guess[i]);
  }
  return kept;
}

void require_samples(std::int64_t samples, const std::string& what) {
  if (samples > 0) return;
  throw UsageError("there is no " + what +
                   " of an empty set: no rank added a label other than -100; check the evaluation "
                   "set and its labels");
}

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
