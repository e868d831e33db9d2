#include "accelerate/transformers/trainer/metrics/moments.h"

#include <algorithm>
#include <cmath>

namespace accelerate::detail {

Moments::Column Moments::column_of(std::span<const double> values) {
  if (values.empty()) return {};
  Column column{.pivot = values[0]};
  for (const double value : values) column.mean += value - column.pivot;
  column.mean /= static_cast<double>(values.size());
  for (const double value : values) {
    const double off = (value - column.pivot) - column.mean;
    column.squares += off * off;
  }
  return column;
}

Moments::Moments(std::span<const double> x, std::span<const double> y)
    : count_(static_cast<double>(x.size())), x_(column_of(x)), y_(column_of(y)) {
  for (std::size_t i = 0; i < x.size(); ++i)
    products_ += ((x[i] - x_.pivot) - x_.mean) * ((y[i] - y_.pivot) - y_.mean);
}

double Moments::distance(const Column& own, const Column& other) {
  return (other.mean - own.mean) + (other.pivot - own.pivot);
}

void Moments::merge(const Moments& other) {
  if (other.count_ == 0) return;
  if (count_ == 0) {
    *this = other;
    return;
  }
  const double all = count_ + other.count_;
  const double share = count_ * (other.count_ / all);
  const double off_x = distance(x_, other.x_), off_y = distance(y_, other.y_);
  x_.squares += other.x_.squares + off_x * off_x * share;
  y_.squares += other.y_.squares + off_y * off_y * share;
  products_ += other.products_ + off_x * off_y * share;
  x_.mean += off_x * (other.count_ / all);
  y_.mean += off_y * (other.count_ / all);
  count_ = all;
}

// A constant column gives 0 / 0.
double Moments::correlation() const {
  const double r = products_ / std::sqrt(x_.squares) / std::sqrt(y_.squares);
  return count_ == 2 ? std::round(r) : std::clamp(r, -1.0, 1.0);
}

std::array<double, Moments::kNumbers> Moments::to_numbers() const {
  return {count_, products_, x_.pivot, x_.mean, x_.squares, y_.pivot, y_.mean, y_.squares};
}

Moments Moments::from_numbers(std::span<const double, kNumbers> n) {
  Moments moments;
  moments.count_ = n[0];
  moments.products_ = n[1];
  moments.x_ = {n[2], n[3], n[4]};
  moments.y_ = {n[5], n[6], n[7]};
  return moments;
}

}  // namespace accelerate::detail
