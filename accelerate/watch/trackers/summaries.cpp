#include <png.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <sstream>
#include <vector>

#include "accelerate/base/error.h"
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

[[noreturn]] void refuse(const std::string& name, const std::string& found) {
  throw UsageError("the image '" + name + "' " + found +
                   "; allowed are shapes [N, C, H, W], [C, H, W] and [H, W] with C 1 or 3 (4 "
                   "without N), uint8, bool or floating point in 0 … 1");
}

std::string shape_text(const at::Tensor& image) {
  std::ostringstream text;
  text << "has shape " << image.sizes();
  return text.str();
}

// [N, C, H, W] → [C, rows × H, columns × W], with eight columns; unused places are black.
at::Tensor grid(const at::Tensor& images) {
  constexpr std::int64_t kColumns = 8;
  const std::int64_t n = images.size(0), h = images.size(2), w = images.size(3);
  const std::int64_t columns = std::min(n, kColumns);
  const std::int64_t rows = (n + columns - 1) / columns;
  at::Tensor canvas = at::zeros({images.size(1), rows * h, columns * w}, images.options());
  for (std::int64_t i = 0; i < n; ++i) {
    canvas.narrow(1, i / columns * h, h).narrow(2, i % columns * w, w).copy_(images[i]);
  }
  return canvas;
}

// Any allowed shape → [C, H, W] with C 3 or 4.
at::Tensor as_colour(const std::string& name, const at::Tensor& image) {
  if (image.numel() == 0) refuse(name, shape_text(image));
  const std::int64_t dims = image.dim();
  if (dims == 2) return image.unsqueeze(0).expand({3, -1, -1});
  if (dims != 3 && dims != 4) refuse(name, shape_text(image));
  const std::int64_t channels = image.size(dims - 3);
  if (channels != 1 && channels != 3 && !(channels == 4 && dims == 3)) {
    refuse(name, shape_text(image));
  }
  const at::Tensor one = dims == 4 ? grid(image) : image;
  return channels == 1 ? one.expand({3, -1, -1}) : one;
}

at::Tensor as_bytes(const std::string& name, const at::Tensor& image) {
  if (image.scalar_type() == at::kByte) return image;
  if (image.scalar_type() == at::kBool) return image.to(at::kByte).mul(255);
  if (!at::isFloatingType(image.scalar_type())) {
    refuse(name, std::string("has dtype ") + at::toString(image.scalar_type()));
  }
  return image.to(at::kFloat).nan_to_num(0.0, 1.0, 0.0).mul(255).clamp(0, 255).to(at::kByte);
}

std::string encode_png(const at::Tensor& pixels) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.height = static_cast<png_uint_32>(pixels.size(0));
  header.width = static_cast<png_uint_32>(pixels.size(1));
  header.format = pixels.size(2) == 4 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  header.flags = PNG_IMAGE_FLAG_FAST;  // Files a quarter larger, in an eighth of the time.
  const auto* data = pixels.const_data_ptr<std::uint8_t>();
  std::string out(PNG_IMAGE_PNG_SIZE_MAX(header), '\0');
  png_alloc_size_t size = out.size();
  if (png_image_write_to_memory(&header, out.data(), &size, 0, data, 0, nullptr) == 0) {
    throw UsageError(std::string("an image could not be encoded as PNG: ") + header.message);
  }
  out.resize(size);
  return out;
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

PngImage encode_image(const std::string& name, const at::Tensor& image) {
  if (!image.defined()) refuse(name, "is an undefined tensor");
  if (image.layout() != at::kStrided || image.is_quantized() || image.is_meta()) {
    refuse(name, "is a sparse, quantized or meta tensor");
  }
  const at::Tensor on_cpu = image.detach().to(at::kCPU);
  const at::Tensor pixels = as_bytes(name, as_colour(name, on_cpu)).permute({1, 2, 0}).contiguous();
  return {static_cast<int>(pixels.size(0)), static_cast<int>(pixels.size(1)),
          static_cast<int>(pixels.size(2)), encode_png(pixels)};
}

}  // namespace accelerate::detail
