#include "accelerate/transformers/trainer/metrics/correlation.h"

#include <ATen/ops/tensor.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/comm/exchange.h"
#include "accelerate/comm/operations.h"
#include "accelerate/transformers/trainer/metrics/class_counts.h"

namespace accelerate {
namespace detail {
namespace {

bool is_one_number_a_row(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_complex() &&
         (tensor.dim() == 1 || (tensor.dim() == 2 && tensor.size(1) == 1));
}

std::string shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

void check_rows(const MetricBatch& batch) {
  if (is_one_number_a_row(batch.predictions) && is_one_number_a_row(batch.labels) &&
      batch.predictions.size(0) == batch.labels.size(0))
    return;
  throw UsageError("a correlation needs one real number a row; found predictions of shape " +
                   shape_of(batch.predictions) + " and labels of shape " + shape_of(batch.labels) +
                   "; allowed are {B} and {B, 1}");
}

at::Tensor flat_on_cpu(const at::Tensor& tensor) {
  return tensor.detach().reshape({-1}).to(at::kCPU);
}

std::span<const double> span_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<double>(), static_cast<std::size_t>(tensor.numel())};
}

at::Tensor all_rows(const std::vector<std::vector<at::Tensor>>& of_ranks, std::size_t column) {
  std::vector<double> rows;
  for (const auto& columns : of_ranks) {
    const std::span<const double> part = span_of(columns.at(column));
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return at::tensor(rows, at::kDouble);
}

// Returns ranks from 1 on. Equal values share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, next = 0; first < order.size(); first = next) {
    while (next < order.size() && values[order[next]] == values[order[first]]) ++next;
    const double mean = (static_cast<double>(first) + 1 + static_cast<double>(next)) / 2;
    for (std::size_t i = first; i < next; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

bool has_nan(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

template <typename T>
void append_as(std::vector<T>& numbers, const at::Tensor& values) {
  const at::Tensor same = values.to(c10::CppTypeToScalarType<T>::value).contiguous();
  const T* first = same.const_data_ptr<T>();
  numbers.insert(numbers.end(), first, first + same.numel());
}

}  // namespace

void NumberColumn::append(const at::Tensor& values) {
  const bool is_single =
      at::isFloatingType(values.scalar_type()) && values.scalar_type() != at::kDouble;
  if (auto* singles = std::get_if<std::vector<float>>(&numbers_); singles != nullptr && !is_single)
    numbers_ = std::vector<double>(singles->begin(), singles->end());
  std::visit([&](auto& numbers) { append_as(numbers, values); }, numbers_);
}

at::Tensor NumberColumn::to_tensor() const {
  return std::visit(
      [](const auto& numbers) {
        return at::tensor(std::vector<double>(numbers.begin(), numbers.end()), at::kDouble);
      },
      numbers_);
}

}  // namespace detail

void Pearson::update(const MetricBatch& batch) {
  detail::check_rows(batch);
  const at::Tensor x = detail::flat_on_cpu(batch.predictions).to(at::kDouble).contiguous();
  const at::Tensor y = detail::flat_on_cpu(batch.labels).to(at::kDouble).contiguous();
  moments_.merge(detail::Moments(detail::span_of(x), detail::span_of(y)));
}

Metrics Pearson::compute(Communicator& communicator) const {
  using detail::Moments;
  const auto numbers = moments_.to_numbers();
  const at::Tensor gathered = gather(communicator, at::tensor(numbers, at::kDouble));
  Moments all;
  for (std::int64_t at = 0; at < gathered.numel(); at += Moments::kNumbers)
    all.merge(Moments::from_numbers(std::span<const double, Moments::kNumbers>(
        gathered.const_data_ptr<double>() + at, Moments::kNumbers)));
  detail::require_samples(static_cast<std::int64_t>(all.count()), name_);
  if (all.count() < 2)
    throw UsageError(name_ + " needs two rows or more, and the evaluation set has a single row");
  return {{name_, all.correlation()}};
}

void Spearman::reset() {
  predictions_.clear();
  labels_.clear();
}

void Spearman::update(const MetricBatch& batch) {
  detail::check_rows(batch);
  predictions_.append(detail::flat_on_cpu(batch.predictions));
  labels_.append(detail::flat_on_cpu(batch.labels));
}

Metrics Spearman::compute(Communicator& communicator) const {
  std::vector<at::Tensor> own{predictions_.to_tensor(), labels_.to_tensor()};
  const auto of_ranks = detail::exchange(communicator, own, communicator.size());
  const at::Tensor x = detail::all_rows(of_ranks, 0), y = detail::all_rows(of_ranks, 1);
  detail::require_samples(x.numel(), name_);
  if (x.numel() == 1 || detail::has_nan(detail::span_of(x)) || detail::has_nan(detail::span_of(y)))
    return {{name_, std::numeric_limits<double>::quiet_NaN()}};
  const auto ranks_x = detail::ranks_of(detail::span_of(x));
  const auto ranks_y = detail::ranks_of(detail::span_of(y));
  return {{name_, detail::Moments(ranks_x, ranks_y).correlation()}};
}

}  // namespace accelerate

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
