// Correlations of numbers: predictions {B} or {B, 1} with labels {B} or {B, 1}, of any real dtype.
// Every row takes part: here -100 is a number like any other.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "accelerate/transformers/trainer/metrics/metric.h"
#include "accelerate/transformers/trainer/metrics/moments.h"

namespace accelerate {

/// Pearson's r, computed in float64 whatever the dtype. NaN where predictions or labels are
/// constant or have a NaN. Memory: 64 bytes. Source: scipy.stats.pearsonr.
class Pearson : public Metric {
 public:
  explicit Pearson(std::string name = "pearsonr") : name_(std::move(name)) {}
  void reset() override { moments_ = {}; }
  /// Throws UsageError unless predictions and labels are one number a row.
  void update(const MetricBatch& batch) override;
  /// [collective] Throws UsageError for fewer than two rows.
  [[nodiscard]] Metrics compute(Communicator& communicator) const override;
  [[nodiscard]] std::vector<std::string> names() const override { return {name_}; }

 private:
  std::string name_;
  detail::Moments moments_;
};

namespace detail {
/// A column of numbers: float32 until a batch brings float64 or integers.
class NumberColumn {
 public:
  /// Appends `values`, {n}, on the CPU.
  void append(const at::Tensor& values);
  void clear() { numbers_ = std::vector<float>(); }
  /// Returns a copy, {n}, in float64, because ranks may keep different dtypes.
  [[nodiscard]] at::Tensor to_tensor() const;

 private:
  std::variant<std::vector<float>, std::vector<double>> numbers_;
};
}  // namespace detail

/// Spearman's rho: Pearson's r of the ranks; equal values share the mean of their ranks. NaN where
/// predictions or labels are constant or have a NaN, and for a single row. Memory: two numbers a
/// row, in float32 where the tensors have at most that precision, else in float64; compute() brings
/// the numbers of all ranks to each rank. Source: scipy.stats.spearmanr.
class Spearman : public Metric {
 public:
  explicit Spearman(std::string name = "spearmanr") : name_(std::move(name)) {}
  void reset() override;
  /// Throws UsageError unless predictions and labels are one number a row.
  void update(const MetricBatch& batch) override;
  /// [collective] Throws UsageError if there is no row. Cost: n log n for n rows of all ranks.
  [[nodiscard]] Metrics compute(Communicator& communicator) const override;
  [[nodiscard]] std::vector<std::string> names() const override { return {name_}; }

 private:
  std::string name_;
  detail::NumberColumn predictions_, labels_;
};

}  // namespace accelerate
