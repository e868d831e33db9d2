// Correlations of numbers: predictions {B} or {B, 1} with labels {B} or {B, 1}, of any real dtype.
// Every row takes part: here -100 is a number like any other.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "accelerate/transformers/trainer/metrics/metric.h"

namespace accelerate::detail {

// Moments of two columns, which can be merged without losing digits.

/// Count, means and central second moments of pairs (x, y), float64. Means are kept relative to a
/// pivot, the first pair. So columns far from 0 lose no digits, and the squares of constant columns
/// are exactly 0. Source: Chan, Golub, LeVeque 1979.
class Moments {
 public:
  /// How many numbers to_numbers() returns.
  static constexpr std::size_t kNumbers = 8;

  Moments() = default;
  /// Computes the moments of `x` and `y`, which have the same length. Two passes.
  Moments(std::span<const double> x, std::span<const double> y);

  void merge(const Moments& other);
  [[nodiscard]] double count() const { return count_; }
  /// Pearson's r, from -1 to 1; for two pairs exactly -1 or 1. NaN if x or y is constant or has a
  /// NaN, and if there is no pair.
  [[nodiscard]] double correlation() const;

  /// Returns the moments as numbers that can be sent to another rank.
  [[nodiscard]] std::array<double, kNumbers> to_numbers() const;
  [[nodiscard]] static Moments from_numbers(std::span<const double, kNumbers> numbers);

 private:
  struct Column {
    double pivot = 0, mean = 0, squares = 0;
  };
  static Column column_of(std::span<const double> values);
  // The mean of `other` minus the mean of `own`.
  static double distance(const Column& own, const Column& other);

  double count_ = 0, products_ = 0;
  Column x_, y_;
};

}  // namespace accelerate::detail

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
