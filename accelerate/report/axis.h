// Axes of charts: what they span, where their ticks are, what the ticks say.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace accelerate::detail {

/// A stretch of numbers, low < high, both finite.
struct AxisRange {
  double low = 0;
  double high = 1;

  /// Where `value` lies: 0 at low, 1 at high; clamped to ±10.
  [[nodiscard]] double place(double value) const;
};

/// Collects the finite ones of the numbers that an axis is to show.
class AxisExtent {
 public:
  void add(double value);
  [[nodiscard]] bool empty() const { return !low_; }
  /// What was added, with some room above and below; 0 is in it where that costs little. A single
  /// value gets room around it. [0, 1] when empty.
  [[nodiscard]] AxisRange padded() const;
  /// What was added, without room; 0 is the beginning where that costs little.
  [[nodiscard]] AxisRange exact() const;

 private:
  std::optional<double> low_, high_;
};

struct AxisTick {
  double value = 0;
  std::string label;
};

/// Ticks at 1, 2 or 5 times a power of ten, within `range`; about `wanted` of them, at most twice
/// as many. Their labels have just the digits that tell them apart: "0.25", "20k", "5e-5".
[[nodiscard]] std::vector<AxisTick> axis_ticks(const AxisRange& range, int wanted);

}  // namespace accelerate::detail
