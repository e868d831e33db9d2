#include "accelerate/comm/shared_memory/window.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/kept_memory.h"
#include "accelerate/comm/shared_memory/process_fork.h"
#include "accelerate/comm/shared_memory/shared_group.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kSpin{20};
constexpr std::chrono::milliseconds kLookAtOwner{100};

// A stamp is twice the epoch. It is odd while the earlier epoch is over and the next is not
// published.
std::uint32_t stamp_of(std::uint32_t epoch) {
  return 2 * epoch;
}

// The stamp of a window that has ended: higher than all epochs, so that nobody waits for an epoch.
constexpr std::uint32_t kEnded = (std::uint32_t{1} << 31) - 1;

}  // namespace

struct SharedWindow::Header {
  alignas(detail::kCacheLine) detail::Counter stamp;
  std::atomic<int> readers{0};                 // Number of peers that may still read the window.
  std::atomic<std::uint32_t> last{kEnded};     // The stamp before the window ended.
  static constexpr std::size_t kBytes = 4096;  // The window begins on a new page.
};

std::shared_ptr<SharedWindow> SharedWindow::create(Communicator& communicator, std::size_t bytes) {
  auto group = communicator.shared_group();
  if (!group) {
    throw UsageError("a SharedWindow needs ranks that share memory, and this group talks through " +
                     std::string(communicator.backend()));
  }
  std::shared_ptr<SharedWindow> window(
      new SharedWindow(std::move(group), communicator.timeout(), communicator.rank(), bytes));
  const auto extent =
      window->group_->peers().arena()->find(window->memory_.data_ptr(), window->memory_.nbytes());
  // Tells all ranks where this window is.
  const at::Tensor mine = at::empty({4}, at::kLong);
  auto* const words = mine.mutable_data_ptr<std::int64_t>();
  words[0] = static_cast<std::int64_t>(extent->segment_offset);
  words[1] = static_cast<std::int64_t>(extent->segment_bytes);
  words[2] = static_cast<std::int64_t>(extent->offset);
  words[3] = static_cast<std::int64_t>(extent->bytes);
  const at::Tensor all = at::empty({communicator.size(), 4}, at::kLong);
  communicator.all_gather(all, mine).wait();
  window->map_peers(all);
  communicator.barrier();  // No rank may free its memory before all ranks have mapped it.
  return window;
}

SharedWindow::SharedWindow(std::shared_ptr<detail::SharedGroup> group,
                           std::chrono::milliseconds timeout, int rank, std::size_t bytes)
    : group_(std::move(group)),
      timeout_(timeout),
      rank_(rank),
      bytes_(bytes),
      memory_(group_->peers().arena()->empty({static_cast<std::int64_t>(Header::kBytes + bytes)},
                                             at::kByte)),
      local_(memory_.narrow(0, Header::kBytes, static_cast<std::int64_t>(bytes))) {
  (new (memory_.data_ptr()) Header())->readers = group_->block().size() - 1;
}

// Maps the windows of all ranks. `where` has a row for each rank: the extent of its memory.
void SharedWindow::map_peers(const at::Tensor& where) {
  std::vector<detail::SharedExtent> extents;
  for (int rank = 0; rank < where.size(0); ++rank) {
    const auto* const row = where[rank].const_data_ptr<std::int64_t>();
    const auto word = [row](int i) { return static_cast<std::uint64_t>(row[i]); };
    extents.push_back({word(0), word(1), word(2), word(3)});
    if (word(3) == memory_.nbytes()) continue;
    own_header().readers = 0;  // All ranks see that the sizes differ, and none maps anything.
    throw CommError("SharedWindow: rank " + std::to_string(rank_) + " asks for " +
                    std::to_string(bytes_) + " bytes and rank " + std::to_string(rank) + " for " +
                    std::to_string(word(3) - Header::kBytes));
  }
  for (std::size_t rank = 0; rank < extents.size(); ++rank) {
    peers_.push_back(group_->map(static_cast<int>(rank), extents[rank]));
  }
}

SharedWindow::~SharedWindow() {
  if (detail::forked()) return;
  own_header().last = own_header().stamp.value();
  own_header().stamp.raise_to(kEnded);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (static_cast<int>(rank) != rank_) header(static_cast<int>(rank)).readers.fetch_sub(1);
  }
  const Header* own = &own_header();
  detail::keep_until(std::make_shared<at::Tensor>(std::move(memory_)),
                     [own] { return own->readers.load() == 0; });
}

SharedWindow::Header& SharedWindow::header(int rank) const {
  return *reinterpret_cast<Header*>(peers_.at(static_cast<std::size_t>(rank)));
}

SharedWindow::Header& SharedWindow::own_header() {
  return *static_cast<Header*>(memory_.data_ptr());
}

void SharedWindow::open() {
  auto& stamp = own_header().stamp;
  if (stamp.value() % 2 == 1) return;
  stamp.raise_to(stamp.value() + 1);
  // Later writes to the window must not become visible before the stamp.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void SharedWindow::publish(std::uint32_t epoch) {
  auto& stamp = own_header().stamp;
  if (epoch >= kEnded / 2 || stamp_of(epoch) <= stamp.value()) {
    throw UsageError("SharedWindow: epoch " + std::to_string(epoch) +
                     " was published after epoch " + std::to_string(stamp.value() / 2) +
                     "; epochs rise, below 2^30 - 1");
  }
  stamp.raise_to(stamp_of(epoch));
}

std::uint32_t SharedWindow::epoch(int rank) const {
  return header(rank).stamp.value() / 2;
}

void SharedWindow::wait_for(int rank, std::uint32_t epoch) {
  detail::Counter& stamp = header(rank).stamp;
  const detail::Blocked blocked{&stamp, stamp_of(epoch), rank};
  const auto end = Clock::now() + timeout_;
  while (!detail::watch(blocked, kSpin, kLookAtOwner)) {
    group_->engine().require_progress(blocked);
    if (Clock::now() < end) continue;
    throw CommError("SharedWindow: rank " + std::to_string(rank) + " has not published epoch " +
                    std::to_string(epoch) + " within " + std::to_string(timeout_.count()) +
                    " ms; its last is " + std::to_string(stamp.value() / 2));
  }
}

void SharedWindow::read(int rank, std::size_t offset, const at::Tensor& to, std::uint32_t epoch) {
  if (rank < 0 || rank >= static_cast<int>(peers_.size()) || !to.is_contiguous() ||
      !to.device().is_cpu() || offset > bytes_ || to.nbytes() > bytes_ - offset) {
    throw UsageError("SharedWindow: read() was given bytes " + std::to_string(offset) + " to " +
                     std::to_string(offset + to.nbytes()) + " of rank " + std::to_string(rank) +
                     "; there are " + std::to_string(bytes_) + " bytes on each of " +
                     std::to_string(peers_.size()) +
                     " ranks, and they go to a contiguous tensor on the CPU");
  }
  wait_for(rank, epoch);
  const auto is_there = [&owner = header(rank), wanted = stamp_of(epoch)] {
    const std::uint32_t stamp = owner.stamp.value();
    return stamp == wanted || (stamp == kEnded && owner.last == wanted);
  };
  const bool before = is_there();
  std::memcpy(to.data_ptr(), peers_[static_cast<std::size_t>(rank)] + Header::kBytes + offset,
              to.nbytes());
  std::atomic_thread_fence(std::memory_order_acquire);
  if (before && is_there()) return;
  if (header(rank).stamp.value() == kEnded) {
    group_->engine().require_progress({&header(rank).stamp, kEnded, rank});  // May throw the cause.
    throw CommError("SharedWindow: rank " + std::to_string(rank) + " ended its window, and rank " +
                    std::to_string(rank_) + " reads epoch " + std::to_string(epoch) + " of it");
  }
  throw CommError("SharedWindow: rank " + std::to_string(rank) + " went on from epoch " +
                  std::to_string(epoch) + " while rank " + std::to_string(rank_) +
                  " read it; all that need an epoch must have read it before its owner continues");
}

}  // namespace accelerate
