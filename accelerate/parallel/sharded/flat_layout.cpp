#include "accelerate/parallel/sharded/flat_layout.h"

#include <algorithm>

#include "accelerate/base/bytes.h"

namespace accelerate::detail {

FlatLayout::FlatLayout(const std::vector<std::int64_t>& numels, int slices)
    : numels_(numels), slices_(slices) {
  std::int64_t end = 0;
  for (const std::int64_t numel : numels_) {
    offsets_.push_back(end);
    end += round_up(numel, kAlignment);
  }
  slice_numel_ = round_up(end, kAlignment * slices_) / slices_;
}

FlatLayout::Piece FlatLayout::piece(std::size_t parameter, int slice) const {
  const std::int64_t first = slice_numel_ * slice;
  const std::int64_t start = offsets_[parameter];
  const std::int64_t begin = std::clamp(start, first, first + slice_numel_);
  const std::int64_t end = std::clamp(start + numels_[parameter], first, first + slice_numel_);
  if (end <= begin) return {};
  return {begin - start, begin - first, end - begin};
}

}  // namespace accelerate::detail
