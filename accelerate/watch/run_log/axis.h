// Axes of charts: the range they span, the positions of their ticks, and the ticks' labels.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace accelerate::detail {

/// A range of numbers: low < high, both finite.
struct AxisRange {
  double low = 0;
  double high = 1;

  /// Returns the position of `value`: 0 at low, 1 at high. The result is clamped to ±10.
  [[nodiscard]] double place(double value) const;
};

/// Collects the finite values that an axis has to show and finds their range.
class AxisExtent {
 public:
  void add(double value);
  [[nodiscard]] bool empty() const { return !low_; }
  /// Returns the range of the added values with a margin above and below. It begins at 0 where that
  /// wastes little space. A single value gets a margin around it. Returns [0, 1] when empty.
  [[nodiscard]] AxisRange padded() const;
  /// Returns the range of the added values, with a margin only around a single value. It begins at
  /// 0 where that wastes little space.
  [[nodiscard]] AxisRange exact() const;

 private:
  std::optional<double> low_, high_;
};

struct AxisTick {
  double value = 0;
  std::string label;
};

/// Returns ticks within `range` at multiples of 1, 2 or 5 times a power of ten: about `wanted`
/// ticks, at most twice as many. Labels have only the digits that tell them apart: "0.25", "20k",
/// "5e-5".
[[nodiscard]] std::vector<AxisTick> axis_ticks(const AxisRange& range, int wanted);

}  // namespace accelerate::detail
