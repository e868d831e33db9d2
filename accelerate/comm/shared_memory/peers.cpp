#include "accelerate/comm/shared_memory/peers.h"

#include <fcntl.h>

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/memory_file.h"

namespace accelerate::detail {
namespace {

bool lies_within(std::uint64_t offset, std::uint64_t bytes, std::uint64_t from, std::uint64_t of) {
  return offset >= from && offset - from <= of && bytes <= of - (offset - from);
}

bool can_shrink(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals < 0 || (seals & F_SEAL_SHRINK) == 0;
}

std::string range(std::uint64_t offset, std::uint64_t bytes) {
  return std::to_string(bytes) + " bytes from " + std::to_string(offset) + " on";
}

}  // namespace

LocalPeers::LocalPeers(std::shared_ptr<SharedArena> arena, std::vector<Peer> peers, int index)
    : arena_(std::move(arena)), index_(index) {
  for (Peer& peer : peers) {
    if (can_shrink(peer.memory.get())) {
      throw CommError("the memory of " + peer.process.describe() +
                      " is not a memory file sealed against shrinking");
    }
    peers_.push_back(std::make_unique<Mapped>(std::move(peer)));
  }
}

LocalPeers::~LocalPeers() {
  for (const auto& peer : peers_) {
    for (const auto& segment : peer->segments.all()) unmap_shared(segment.target, segment.bytes);
  }
}

std::byte* LocalPeers::map(int peer, const SharedExtent& extent) {
  if (peer == index_) {
    if (std::byte* own = arena_->address_of(extent)) return own;
    throw CommError("this process has no shared memory of " + range(extent.offset, extent.bytes));
  }
  const auto& segments = peers_[static_cast<std::size_t>(peer)]->segments;
  const auto* segment = segments.find(extent.offset, extent.bytes);
  if (segment == nullptr) return map_segment(peer, extent);
  return reinterpret_cast<std::byte*>(segment->target + (extent.offset - segment->start));
}

std::byte* LocalPeers::map_segment(int peer, const SharedExtent& extent) {
  check(peer, extent);
  Mapped& mapped = *peers_[static_cast<std::size_t>(peer)];
  const std::lock_guard lock(mapped.mutex);
  // Another thread may have mapped the segment meanwhile.
  if (const auto* segment = mapped.segments.find(extent.offset, extent.bytes)) {
    return reinterpret_cast<std::byte*>(segment->target + (extent.offset - segment->start));
  }
  std::byte* address =
      map_shared(mapped.peer.memory.get(), extent.segment_offset, extent.segment_bytes, true);
  mapped.segments.add(
      {extent.segment_offset, extent.segment_bytes, reinterpret_cast<std::uint64_t>(address)});
  return address + (extent.offset - extent.segment_offset);
}

void LocalPeers::check(int peer, const SharedExtent& extent) const {
  const std::uint64_t file = file_bytes(peers_[static_cast<std::size_t>(peer)]->peer.memory.get());
  const bool whole_pages = extent.segment_bytes > 0 &&
                           extent.segment_offset % MemoryFile::kPageBytes == 0 &&
                           extent.segment_bytes % MemoryFile::kPageBytes == 0;
  if (whole_pages && lies_within(extent.segment_offset, extent.segment_bytes, 0, file) &&
      lies_within(extent.offset, extent.bytes, extent.segment_offset, extent.segment_bytes)) {
    return;
  }
  throw CommError("there is no shared memory of " + range(extent.offset, extent.bytes) +
                  " in a segment of " + range(extent.segment_offset, extent.segment_bytes) +
                  " in the file of " + describe(peer) + ", which has " + std::to_string(file) +
                  " bytes");
}

bool LocalPeers::is_alive(int peer) const noexcept {
  return peers_[static_cast<std::size_t>(peer)]->peer.process.is_alive();
}

std::string LocalPeers::describe(int peer) const {
  return peers_.at(static_cast<std::size_t>(peer))->peer.process.describe();
}

}  // namespace accelerate::detail
