// What an evaluation measures beside the loss. A metric takes one batch after the other and keeps
// counts, not outputs: evaluation memory does not grow with the set (Spearman keeps two numbers a
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

/// What a batch gives a metric: samples that count once. Tensors on the CPU or the model's device.
struct MetricBatch {
  at::Tensor predictions;  ///< What the model returned: {B, C}, {B, T, C}, {B}, ...
  at::Tensor labels;       ///< int64 or float: {B}, {B, T}
  /// int64, shaped as `labels`: the likeliest class of each place. Only combine() sets it, so that
  /// several metrics share one search; leave it undefined.
  at::Tensor classes = {};
};

/// Ordered name → value.
using Metrics = std::vector<std::pair<std::string, double>>;

class Metric {
 public:
  virtual ~Metric() = default;
  /// Forgets all batches.
  virtual void reset() = 0;
  /// Adds a batch of this rank. Local. Throws UsageError for tensors that do not fit, and has then
  /// added nothing.
  virtual void update(const MetricBatch& batch) = 0;
  /// Returns the values over everything that all ranks added. [collective] `communicator`: the
  /// ranks. A rank may have added nothing. All ranks get the same values or the same UsageError.
  [[nodiscard]] virtual Metrics compute(Communicator& communicator) const = 0;
  /// The names that compute() gives, in its order.
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;
  /// Whether update() reads the likeliest classes; combine() then finds them once for all.
  [[nodiscard]] virtual bool reads_classes() const { return false; }
};

/// A metric in shared ownership, made from a metric or from a shared_ptr to one.
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

/// Returns one metric that gives the values of all `metrics` in their order. Throws ConfigError if
/// two give the same name (the options of a metric can set another), or if one is null.
[[nodiscard]] std::shared_ptr<Metric> combine(std::vector<MetricHandle> metrics);

}  // namespace accelerate
