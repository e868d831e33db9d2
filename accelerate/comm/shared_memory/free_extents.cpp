#include "accelerate/comm/shared_memory/free_extents.h"

#include <iterator>

#include "accelerate/base/bytes.h"

namespace accelerate::detail {

std::optional<FreeExtents::Extent> FreeExtents::take(std::uint64_t bytes, std::uint64_t alignment) {
  for (auto it = by_size_.lower_bound({bytes, 0}); it != by_size_.end(); ++it) {
    const Extent from = by_offset_.at(it->second);
    const std::uint64_t start = round_up(from.offset, alignment);
    const std::uint64_t end = from.offset + from.bytes;
    if (start > end || bytes > end - start) continue;
    remove(from);
    if (start > from.offset) insert({from.offset, start - from.offset, from.segment});
    if (end > start + bytes) insert({start + bytes, end - start - bytes, from.segment});
    return Extent{start, bytes, from.segment};
  }
  return std::nullopt;
}

FreeExtents::Extent FreeExtents::give(Extent extent) {
  const auto after = by_offset_.upper_bound(extent.offset);
  if (after != by_offset_.begin()) {
    const Extent before = std::prev(after)->second;
    if (before.segment == extent.segment && before.offset + before.bytes == extent.offset) {
      remove(before);
      extent.offset = before.offset;
      extent.bytes += before.bytes;
    }
  }
  const auto next = by_offset_.find(extent.offset + extent.bytes);
  if (next != by_offset_.end() && next->second.segment == extent.segment) {
    extent.bytes += next->second.bytes;
    remove(Extent(next->second));
  }
  insert(extent);
  return extent;
}

void FreeExtents::insert(const Extent& extent) {
  by_offset_.emplace(extent.offset, extent);
  by_size_.emplace(extent.bytes, extent.offset);
  bytes_ += extent.bytes;
}

void FreeExtents::remove(const Extent& extent) {
  by_size_.erase({extent.bytes, extent.offset});
  by_offset_.erase(extent.offset);
  bytes_ -= extent.bytes;
}

}  // namespace accelerate::detail
