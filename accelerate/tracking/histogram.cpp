#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "accelerate/tracking/summaries.h"

namespace accelerate::detail {
namespace {

// Multiplied step by step as the original does, so that the edges are the same to the last bit.
std::vector<double> default_edges() {
  std::vector<double> positive;
  for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(v);
  std::vector<double> edges;
  for (auto v = positive.rbegin(); v != positive.rend(); ++v) edges.push_back(-*v);
  edges.push_back(0);
  edges.insert(edges.end(), positive.begin(), positive.end());
  return edges;
}

const std::vector<double>& edges() {
  static const std::vector<double> all = default_edges();
  return all;
}

// Bucket i holds [edge i, edge i+1), the last one its upper edge too; what lies outside is in none.
std::vector<double> count(const double* begin, const double* end) {
  std::vector<double> counts(edges().size() - 1);
  for (const double* v = begin; v != end; ++v) {
    const auto above = std::upper_bound(edges().begin(), edges().end(), *v) - edges().begin();
    if (above > 0 && above < static_cast<std::ptrdiff_t>(edges().size())) {
      counts[static_cast<std::size_t>(above - 1)] += 1;
    } else if (*v == edges().back()) {
      counts.back() += 1;
    }
  }
  return counts;
}

// Only buckets from the first to the last that hold something, and an empty one before them, which
// carries the lower edge: TensorBoard stores upper edges only.
void keep_support(HistogramSummary& histogram, const std::vector<double>& counts) {
  const auto used = [](double n) { return n > 0; };
  const auto first = std::ranges::find_if(counts, used);
  if (first == counts.end()) {  // All lie beyond ±1e20: one bucket for them.
    histogram.bucket_limit = {histogram.max};
    histogram.bucket = {histogram.num};
    return;
  }
  const auto start = first - counts.begin();
  const auto end = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), used);
  histogram.bucket = {start > 0 ? counts[static_cast<std::size_t>(start - 1)] : 0.0};
  histogram.bucket.insert(histogram.bucket.end(), first, counts.begin() + end);
  histogram.bucket_limit.assign(edges().begin() + start, edges().begin() + end + 1);
}

}  // namespace

std::optional<HistogramSummary> summarize(const at::Tensor& values) {
  if (!values.defined() || values.numel() == 0) return std::nullopt;
  at::Tensor all = values.detach().to(at::kCPU, at::kDouble).flatten().contiguous();
  const at::Tensor finite = all.isfinite();
  if (!finite.all().item<bool>()) all = all.masked_select(finite);
  if (all.numel() == 0) return std::nullopt;
  const double* begin = all.const_data_ptr<double>();
  const double* end = begin + all.numel();
  HistogramSummary histogram;
  histogram.min = *std::min_element(begin, end);
  histogram.max = *std::max_element(begin, end);
  histogram.num = static_cast<double>(all.numel());
  histogram.sum = all.sum().item<double>();
  histogram.sum_squares = all.dot(all).item<double>();
  keep_support(histogram, count(begin, end));
  return histogram;
}

}  // namespace accelerate::detail
