#include "accelerate/formats/safetensors/tensor_slice.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate {
namespace {

[[noreturn]] void refuse_slice(const TensorSpec& tensor, const std::string& why) {
  throw UsageError("cannot take a slice of " + detail::tensor_label(tensor.name) + ": " + why);
}

// Returns one range for each dimension. Throws UsageError for a range that leaves its dimension.
std::vector<IndexRange> complete(const TensorSpec& tensor, std::span<const IndexRange> ranges) {
  if (ranges.size() > tensor.shape.size()) {
    refuse_slice(tensor, std::to_string(ranges.size()) + " ranges were given for its " +
                             std::to_string(tensor.shape.size()) + " dimensions");
  }
  std::vector<IndexRange> all(ranges.begin(), ranges.end());
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const std::int64_t size = tensor.shape[d];
    if (d == all.size()) all.push_back({0, size});
    if (all[d].begin < 0 || all[d].end < all[d].begin || all[d].end > size) {
      refuse_slice(tensor, std::to_string(all[d].begin) + ":" + std::to_string(all[d].end) +
                               " of its dimension " + std::to_string(d) +
                               ", which has 0:" + std::to_string(size));
    }
  }
  return all;
}

std::uint64_t length(const IndexRange& range) {
  return static_cast<std::uint64_t>(range.end - range.begin);
}

std::uint64_t whole_bytes(const TensorSpec& tensor, std::uint64_t bits) {
  if (bits % 8 != 0) {
    refuse_slice(tensor,
                 "its elements of " + std::to_string(bits_of(tensor.dtype)) +
                     " bits are packed, and the slice does not begin and end on whole bytes");
  }
  return bits / 8;
}

}  // namespace

SliceRuns::SliceRuns(const TensorSpec& tensor, std::span<const IndexRange> ranges) {
  const std::vector<IndexRange> all = complete(tensor, ranges);
  const auto bytes = bytes_of(tensor.dtype, tensor.shape);
  if (!bytes) refuse_slice(tensor, "its shape has no size in bytes");
  tensor_bytes_ = *bytes;
  for (const IndexRange& range : all) shape_.push_back(range.end - range.begin);
  if (std::ranges::find(shape_, 0) != shape_.end()) return;
  // From here on no dimension is 0, so nothing below can overflow if the tensor's size did not.
  std::uint64_t stride = bits_of(tensor.dtype), run = stride, first = 0;
  bool run_is_open = true;  // While all dimensions are whole, the next one's steps are adjacent.
  count_ = 1;
  for (std::size_t d = all.size(); d-- > 0;) {
    first += static_cast<std::uint64_t>(all[d].begin) * stride;
    if (run_is_open) {
      run *= length(all[d]);
      run_is_open = shape_[d] == tensor.shape[d];
    } else if (length(all[d]) > 1) {
      outer_.push_back({length(all[d]), whole_bytes(tensor, stride)});
      count_ *= length(all[d]);
    }
    stride *= static_cast<std::uint64_t>(tensor.shape[d]);
  }
  first_ = whole_bytes(tensor, first);
  run_bytes_ = whole_bytes(tensor, run);
}

ByteRun SliceRuns::operator[](std::uint64_t index) const {
  std::uint64_t offset = first_;
  for (const Outer& dimension : outer_) {
    offset += index % dimension.count * dimension.stride_bytes;
    index /= dimension.count;
  }
  return {offset, run_bytes_};
}

std::vector<ByteRun> SliceRuns::list() const {
  std::vector<ByteRun> runs;
  runs.reserve(count_);
  for (std::uint64_t i = 0; i < count_; ++i) runs.push_back((*this)[i]);
  return runs;
}

void copy_slice(const SliceRuns& from, std::span<const std::byte> from_bytes, const SliceRuns& to,
                std::span<std::byte> to_bytes) {
  if (from.total_bytes() != to.total_bytes() || from_bytes.size() != from.tensor_bytes() ||
      to_bytes.size() != to.tensor_bytes()) {
    throw UsageError("cannot copy " + std::to_string(from.total_bytes()) + " bytes of " +
                     std::to_string(from_bytes.size()) +
                     " (tensor: " + std::to_string(from.tensor_bytes()) + ") over " +
                     std::to_string(to.total_bytes()) + " of " + std::to_string(to_bytes.size()) +
                     " (tensor: " + std::to_string(to.tensor_bytes()) + ")");
  }
  ByteRun source{}, target{};
  std::uint64_t next_source = 0, next_target = 0;
  for (std::uint64_t left = from.total_bytes(); left > 0;) {
    if (source.size_bytes == 0) source = from[next_source++];
    if (target.size_bytes == 0) target = to[next_target++];
    const std::uint64_t size = std::min(source.size_bytes, target.size_bytes);
    std::memcpy(to_bytes.data() + target.offset_bytes, from_bytes.data() + source.offset_bytes,
                size);
    source = {source.offset_bytes + size, source.size_bytes - size};
    target = {target.offset_bytes + size, target.size_bytes - size};
    left -= size;
  }
}

void read_slice(const SliceRuns& from, std::span<const std::byte> from_bytes,
                std::span<std::byte> out) {
  const TensorSpec whole{"", DType::u8, {static_cast<std::int64_t>(from.total_bytes())}};
  copy_slice(from, from_bytes, SliceRuns(whole, {}), out);
}

}  // namespace accelerate
