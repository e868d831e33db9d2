#include "accelerate/comm/shared_memory/arena_segments.h"

#include <algorithm>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/control_block.h"

namespace accelerate::detail {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kPageAlignedFrom = std::uint64_t{64} << 10;
constexpr std::uint64_t kHugePage = 2 * kMiB;      // segments begin at multiples, for huge pages
constexpr std::uint64_t kFirstSegment = kMiB / 4;  // enough to meet the peers
constexpr std::uint64_t kLeastSegment = 4 * kMiB;
constexpr std::uint64_t kSomeAhead = 64 * kMiB;
constexpr std::uint64_t kMostAhead = 1024 * kMiB;
constexpr std::uint64_t kKeptIdle = 256 * kMiB;
// More than any machine has, yet small enough to be rounded up without overflow.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;

std::uint64_t alignment_of(std::uint64_t bytes) {
  return bytes >= kPageAlignedFrom ? MemoryFile::kPageBytes : kCacheLine;
}

// Returns the size of a block for `bytes` bytes.
std::uint64_t padded(std::uint64_t bytes) {
  const std::uint64_t some = std::clamp<std::uint64_t>(bytes, 1, kMostBytes);
  return round_up(some, alignment_of(some));
}

std::uint64_t number(const void* data) {
  return reinterpret_cast<std::uint64_t>(data);
}

}  // namespace

ArenaSegments::ArenaSegments() {
  add_segment(kFirstSegment);
}

ArenaSegments::~ArenaSegments() {
  for (const auto& segment : by_address_.all()) unmap_shared(segment.start, segment.bytes);
}

SharedExtent ArenaSegments::take(std::size_t bytes) {
  const std::uint64_t wanted = padded(bytes);
  const std::lock_guard lock(mutex_);
  auto taken = free_.take(wanted, alignment_of(wanted));
  if (!taken) {
    make_room(wanted);
    taken = free_.take(wanted, alignment_of(wanted));
  }
  if (const auto idle = idle_.find(taken->segment); idle != idle_.end()) {
    idle_bytes_ -= idle->second;
    idle_.erase(idle);
  }
  in_use_ += wanted;
  const auto* segment = by_offset_.find(taken->segment, 0);
  return {segment->start, segment->bytes, taken->offset, bytes};
}

void ArenaSegments::give(const SharedExtent& extent) {
  const std::uint64_t bytes = padded(extent.bytes);
  const std::lock_guard lock(mutex_);
  in_use_ -= bytes;
  const auto merged = free_.give({extent.offset, bytes, extent.segment_offset});
  if (merged.bytes != extent.segment_bytes) return;
  idle_.emplace(extent.segment_offset, extent.segment_bytes);
  idle_bytes_ += extent.segment_bytes;
  release_idle_segments(std::max(kKeptIdle, 2 * in_use_));
}

void ArenaSegments::make_room(std::uint64_t bytes) {
  const std::uint64_t needed = round_up(bytes, kHugePage);
  const std::uint64_t preferred = preferred_segment_bytes(needed);
  try {
    if (!restore_a_released_segment(bytes, std::max(preferred, 2 * needed))) add_segment(preferred);
  } catch (const CommError&) {
    // Tries again after releasing idle segments: their memory may be what was missing.
    release_idle_segments(0);
    if (!restore_a_released_segment(bytes, needed)) add_segment(needed);
  }
}

// Returns the size of a new segment: larger than needed, so that segments stay few, but no large
// part of the memory reserved already. With a large model, half of its memory would be far too
// much.
std::uint64_t ArenaSegments::preferred_segment_bytes(std::uint64_t needed) const {
  const std::uint64_t some = std::max({kSomeAhead, 2 * needed, reserved_ / 16});
  const std::uint64_t ahead = round_up(std::min(reserved_ / 2, some), kHugePage);
  return std::max({needed, kLeastSegment, std::min(ahead, kMostAhead)});
}

// Restores the smallest released segment that holds `bytes`. Takes none larger than `most`, for
// which memory may be lacking. Returns whether it restored one.
bool ArenaSegments::restore_a_released_segment(std::uint64_t bytes, std::uint64_t most) {
  auto best = released_.end();
  for (auto it = released_.begin(); it != released_.end(); ++it) {
    const bool fits = it->second >= bytes && it->second <= most;
    if (fits && (best == released_.end() || it->second < best->second)) best = it;
  }
  if (best == released_.end()) return false;
  const auto [offset, size] = *best;
  const auto* segment = by_offset_.find(offset, size);
  file_.restore(offset, size, reinterpret_cast<std::byte*>(segment->target));
  released_.erase(best);
  free_.give({offset, size, offset});
  reserved_ += size;
  return true;
}

void ArenaSegments::add_segment(std::uint64_t bytes) {
  const std::uint64_t address = number(file_.add(end_, bytes));
  by_address_.add({address, bytes, end_});
  by_offset_.add({end_, bytes, address});
  free_.give({end_, bytes, end_});
  reserved_ += bytes;
  end_ += round_up(bytes, kHugePage);
}

// Releases the largest segments first, because they are usually left by one-off results.
void ArenaSegments::release_idle_segments(std::uint64_t most) {
  while (idle_bytes_ > most && !idle_.empty()) {
    const auto largest =
        std::max_element(idle_.begin(), idle_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto [offset, bytes] = *largest;
    idle_.erase(largest);
    idle_bytes_ -= bytes;
    free_.remove({offset, bytes, offset});
    file_.release(offset, bytes);
    released_.emplace(offset, bytes);
    reserved_ -= bytes;
  }
}

std::optional<SharedExtent> ArenaSegments::find(const void* data, std::size_t bytes) const {
  const auto* segment = by_address_.find(number(data), bytes);
  if (segment == nullptr) return std::nullopt;
  return SharedExtent{segment->target, segment->bytes,
                      segment->target + (number(data) - segment->start), bytes};
}

std::byte* ArenaSegments::address_of(const SharedExtent& extent) const {
  const auto* segment = by_offset_.find(extent.offset, extent.bytes);
  if (segment == nullptr) return nullptr;
  return reinterpret_cast<std::byte*>(segment->target + (extent.offset - segment->start));
}

std::size_t ArenaSegments::bytes_reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

std::size_t ArenaSegments::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

}  // namespace accelerate::detail
