// What an evaluation measures beside the loss. A metric takes one batch after another and keeps
// counts, not outputs, so its memory does not grow with the dataset (Spearman keeps two numbers a
// row). docs/metrics.md lists the built-in metrics and shows how to write one.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// A batch for a metric, without repeated samples. Tensors on the CPU or the model's device.
struct MetricBatch {
  at::Tensor predictions;  ///< What the model returned: {B, C}, {B, T, C}, {B}, ...
  at::Tensor labels;       ///< int64 or float: {B}, {B, T}
  /// int64, shaped as `labels`: the likeliest class of each place. Only combine() sets it, so that
  /// several metrics share one search; leave it undefined.
  at::Tensor classes = {};
};

/// Names with values, in order.
using Metrics = std::vector<std::pair<std::string, double>>;

class Metric {
 public:
  virtual ~Metric() = default;
  /// Forgets all batches.
  virtual void reset() = 0;
  /// Adds a batch of this rank. Local. Throws UsageError for tensors that do not fit; then it has
  /// added nothing.
  virtual void update(const MetricBatch& batch) = 0;
  /// Returns the values over everything that all ranks added. [collective] `communicator`: the
  /// ranks. A rank may have added nothing. All ranks get the same values or the same UsageError.
  [[nodiscard]] virtual Metrics compute(Communicator& communicator) const = 0;
  /// The names of the values that compute() returns, in the same order.
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;
  /// Whether update() reads the likeliest classes; combine() then finds them once for all metrics.
  [[nodiscard]] virtual bool reads_classes() const { return false; }
};

/// A metric in shared ownership, made from a metric or from a shared_ptr to a metric.
class MetricHandle {
 public:
  // NOLINTBEGIN(google-explicit-constructor): `combine({Accuracy(), F1()})` is the point.
  template <std::derived_from<Metric> M>
  MetricHandle(M metric) : metric_(std::make_shared<M>(std::move(metric))) {}
  template <std::derived_from<Metric> M>
  MetricHandle(std::shared_ptr<M> metric) : metric_(std::move(metric)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const std::shared_ptr<Metric>& shared() const { return metric_; }

 private:
  std::shared_ptr<Metric> metric_;
};

/// Returns one metric that gives the values of all `metrics`, in their order. Throws ConfigError if
/// two give the same name, or if one is null. A metric's options can set another name.
[[nodiscard]] std::shared_ptr<Metric> combine(std::vector<MetricHandle> metrics);

}  // namespace accelerate
