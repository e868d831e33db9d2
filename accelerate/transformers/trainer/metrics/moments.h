// Moments of two columns, which can be merged without losing digits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace accelerate::detail {

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
