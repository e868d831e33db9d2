#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "accelerate/watch/trackers/values.h"

namespace accelerate::detail {
namespace {

// Multiplies step by step, as the original does, so that edges are equal to the last bit.
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

// Counts the edges at or below a number. The first 16 bits of a double (sign, exponent and four
// bits of the fraction) leave a range of less than 6.25 %, which contains at most one edge. The
// number of edges below the range is looked up, and one comparison does the rest.
class EdgeCounter {
 public:
  EdgeCounter() {
    for (std::uint64_t key = 0; key < below_.size(); ++key) {
      const std::uint64_t is_negative = key >> 15;
      // If negative, the least has all bits set.
      const std::uint64_t rest = is_negative != 0 ? kRest : 0;
      const auto least = std::bit_cast<double>(key << kRestBits | rest);
      const auto above = std::upper_bound(edges().begin(), edges().end(), least);
      below_[key] = static_cast<std::uint16_t>(above - edges().begin());
    }
  }

  [[nodiscard]] std::size_t operator()(double value) const {
    const std::size_t below = below_[std::bit_cast<std::uint64_t>(value) >> kRestBits];
    return below < edges().size() && edges()[below] <= value ? below + 1 : below;
  }

 private:
  static constexpr int kRestBits = 48;
  static constexpr std::uint64_t kRest = (std::uint64_t{1} << kRestBits) - 1;
  std::array<std::uint16_t, 1 << 16> below_{};
};

// Bucket i holds [edge i, edge i+1); the last bucket includes its upper edge. Values outside are in
// no bucket.
std::vector<double> count(const double* begin, const double* end) {
  static const EdgeCounter edges_up_to;
  std::vector<double> counts(edges().size() - 1);
  for (const double* v = begin; v != end; ++v) {
    const std::size_t above = edges_up_to(*v);
    if (above > 0 && above < edges().size()) {
      counts[above - 1] += 1;
    } else if (*v == edges().back()) {
      counts.back() += 1;
    }
  }
  return counts;
}

// Keeps the buckets from the first to the last that holds something, and an empty bucket before
// them. That one carries the lower edge, since TensorBoard stores upper edges only.
void keep_support(HistogramSummary& histogram, const std::vector<double>& counts) {
  const auto used = [](double n) { return n > 0; };
  const auto first = std::ranges::find_if(counts, used);
  if (first == counts.end()) {  // All values lie beyond ±1e20: one bucket for them.
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

at::Tensor dense(const at::Tensor& values) {
  if (values.is_quantized()) return values.dequantize();
  return values.layout() == at::kStrided ? values : values.to_dense();
}

}  // namespace

std::optional<HistogramSummary> summarize(const at::Tensor& values) {
  if (!values.defined() || values.numel() == 0) return std::nullopt;
  at::Tensor all = dense(values.detach()).to(at::kCPU, at::kDouble).flatten().contiguous();
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
