#include "accelerate/formats/shards/flat_elements.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace accelerate {
namespace {

std::int64_t numel_of(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

FoundPart whole_part(const std::string& name, const TorchTensor& tensor, std::size_t file) {
  return {.name = name,
          .dtype = tensor.dtype,
          .piece = {whole_tile(tensor.shape), file, tensor.bytes.first(tensor.size_bytes())},
          .whole_shape = tensor.shape};
}

void FlatElements::add(const TorchTensor& tensor, std::size_t file) {
  const std::int64_t numel = numel_of(tensor.shape);
  segments_.push_back({.begin = numel_,
                       .numel = numel,
                       .dtype = tensor.dtype,
                       .piece = {{}, file, tensor.bytes.first(tensor.size_bytes())}});
  numel_ += numel;
}

void FlatElements::find(const ElementRange& range, std::int64_t at,
                        std::vector<FoundPart>& parts) const {
  const auto after = std::ranges::upper_bound(
      segments_, at, {}, [](const Segment& segment) { return segment.begin + segment.numel; });
  for (auto segment = after; segment != segments_.end(); ++segment) {
    const std::int64_t begin = std::max(at, segment->begin);
    const std::int64_t end = std::min(at + range.numel, segment->begin + segment->numel);
    if (segment->begin >= at + range.numel) break;
    const std::size_t width = bits_of(segment->dtype) / 8;
    auto bytes =
        segment->piece.bytes.subspan(static_cast<std::size_t>(begin - segment->begin) * width);
    const std::int64_t first = range.begin + begin - at;
    for (auto& tile : tiles_of_range(range.shape, first, first + end - begin)) {
      const std::size_t size = static_cast<std::size_t>(numel_of(tile.sizes)) * width;
      parts.push_back({.name = range.name,
                       .dtype = segment->dtype,
                       .piece = {std::move(tile), segment->piece.file, bytes.first(size)},
                       .whole_shape = range.shape});
      bytes = bytes.subspan(size);
    }
  }
}

}  // namespace accelerate
