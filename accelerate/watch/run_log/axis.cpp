#include "accelerate/watch/run_log/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace accelerate::detail {
namespace {

constexpr double kLargestOnAxis = 1e200;  // So that differences stay finite.

std::string fixed(double value, int decimals) {
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

// Returns the number close to `size` that is 1, 2 or 5 times a power of ten.
double nice_step(double size) {
  const double power = std::pow(10, std::floor(std::log10(size)));
  const double digits = size / power;
  return power * (digits < 1.5 ? 1 : digits < 3.5 ? 2 : digits < 7.5 ? 5 : 10);
}

int decimals_of(double step) {
  return std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 12);
}

// "2.5e-5"
std::string power_label(double value, double step, int exponent) {
  if (value == 0) return "0";
  const double unit = std::pow(10, exponent);
  return fixed(value / unit, decimals_of(step / unit)) + "e" + std::to_string(exponent);
}

struct Unit {
  double size;
  const char* name;
};

Unit unit_of(double largest) {
  constexpr std::array kUnits = {Unit{1e12, "T"}, Unit{1e9, "G"}, Unit{1e6, "M"}, Unit{1e3, "k"}};
  if (largest >= 1e4)
    for (const Unit& unit : kUnits)
      if (largest >= unit.size) return unit;
  return {1, ""};
}

std::string tick_label(double value, double step, double largest) {
  if (largest < 1e-3 || largest >= 1e15)
    return power_label(value, step, static_cast<int>(std::floor(std::log10(largest))));
  const Unit unit = unit_of(largest);
  const std::string label = fixed(value / unit.size, decimals_of(step / unit.size));
  return value == 0 ? "0" : label + unit.name;
}

AxisRange around(double value) {
  const double room = value == 0 ? 1 : std::abs(value) * 0.1;
  return {value - room, value + room};
}

bool is_single(double low, double high) {
  return high - low <= 1e-9 * std::max(std::abs(low), std::abs(high));
}

// Whether an axis that begins at 0 wastes little space.
bool may_begin_at_zero(double low, double high) {
  return low > 0 && low < 0.35 * high;
}

}  // namespace

double AxisRange::place(double value) const {
  return std::clamp((value - low) / (high - low), -10.0, 10.0);
}

void AxisExtent::add(double value) {
  if (!std::isfinite(value)) return;
  value = std::clamp(value, -kLargestOnAxis, kLargestOnAxis);
  low_ = std::min(low_.value_or(value), value);
  high_ = std::max(high_.value_or(value), value);
}

AxisRange AxisExtent::padded() const {
  constexpr double kRoom = 0.06;
  if (empty()) return {};
  if (is_single(*low_, *high_)) return around(*low_);
  const double room = (*high_ - *low_) * kRoom;
  const bool from_zero = may_begin_at_zero(*low_, *high_) || *low_ == 0;
  return {from_zero ? 0 : *low_ - room, *high_ + room};
}

AxisRange AxisExtent::exact() const {
  if (empty()) return {};
  if (is_single(*low_, *high_)) return around(*low_);
  return {may_begin_at_zero(*low_, *high_) ? 0 : *low_, *high_};
}

std::vector<AxisTick> axis_ticks(const AxisRange& range, int wanted) {
  const double step = nice_step((range.high - range.low) / wanted);
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  std::vector<AxisTick> ticks;
  const double first = std::ceil(range.low / step - 1e-9);
  for (int i = 0; i <= 2 * wanted; ++i) {
    const double value = (first + i) * step;
    if (value > range.high + step * 1e-9) break;
    ticks.push_back({value, tick_label(value, step, largest)});
  }
  return ticks;
}

}  // namespace accelerate::detail
