// The memory that a group shares. It holds for each rank its counters, its last calls, and staging
// slots for data in private memory. A mark at the end tells it from other memory. Every word has
// one writer, except counts of sleepers and addresses of posts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "accelerate/comm/shared_memory/call.h"
#include "accelerate/comm/shared_memory/counter.h"

namespace accelerate::detail {

/// Rounds of data that may be under way simultaneously: the number of slots in each rank's ring.
inline constexpr std::uint32_t kSlots = 4;
/// Last calls of a rank that stay readable. A rank is at most kSlots rounds, so kSlots + 1 calls,
/// ahead of a peer.
inline constexpr std::uint32_t kCallsKept = 8;
inline constexpr std::size_t kCacheLine = 64;

/// Whether a rank still takes part in its group.
enum class Standing : std::uint32_t { taking_part, gave_up, left };

/// A message that its sender offers and its receiver takes. The receiver clears `address` and
/// raises `taken` and `drained`; the sender writes all else. Counters are not reset between
/// messages.
struct Post {
  /// Holds address_of() from the offer on, when the rest of the post may be read. The receiver sets
  /// it to zero when it takes the message. So a receiver that finds its address here has not taken
  /// the message yet, and nobody changes the post until it does. Proof: model/messages.pml in
  /// tests.
  alignas(kCacheLine) std::atomic<std::uint64_t> address{0};
  std::uint32_t number = 0;        ///< Counts the sender's messages.
  std::uint32_t taken_before = 0;  ///< `taken` when the message was offered.
  std::uint32_t drained_before = 0;
  std::uint32_t first_turn = 0;  ///< Mail slot of the first piece; set before `filled` is raised.
  c10::ScalarType dtype = c10::ScalarType::Byte;
  bool in_place = false;  ///< Whether the receiver reads the message at `where`, in one piece.
  std::uint64_t bytes = 0;
  SharedExtent where{};
  alignas(kCacheLine) Counter filled;  ///< Counts pieces put into the sender's mail slots.
  alignas(kCacheLine) Counter taken;   ///< Counts messages that a receive has taken.
  Counter drained;                     ///< Counts pieces that the receiver has read.

  [[nodiscard]] static std::uint64_t address_of(int receiver, int tag) {
    return std::uint64_t{1} << 63 | std::uint64_t(static_cast<std::uint32_t>(receiver)) << 32 |
           static_cast<std::uint32_t>(tag);
  }
};

/// Messages of one rank that may be on offer simultaneously; further messages queue at the sender.
inline constexpr std::size_t kPosts = 64;

/// What one rank tells its peers.
struct RankLines {
  alignas(kCacheLine) Counter posted;   ///< Counts calls whose description may be read.
  Counter filled;                       ///< Counts rounds whose data of this rank may be read.
  alignas(kCacheLine) Counter reduced;  ///< Counts rounds whose slice this rank has reduced.
  alignas(kCacheLine) Counter drained;  ///< Counts rounds that this rank has finished reading.
  alignas(kCacheLine) std::atomic<Standing> standing{Standing::taking_part};
  std::atomic<std::uint32_t> gone{0};  ///< Set when no thread of the rank reads the block any more.
  char reason[4 * kCacheLine - 2 * sizeof(std::uint32_t)]{};  ///< Why the rank gave up.
  alignas(kCacheLine) Call calls[kCallsKept]{};               ///< By number modulo kCallsKept.
  alignas(kCacheLine) Counter posted_messages;
  Post posts[kPosts]{};
};

class ControlBlock {
 public:
  /// Uses the block at `base`, which begin() has prepared for `size` ranks.
  ControlBlock(std::byte* base, int size);

  [[nodiscard]] static std::size_t bytes_for(int size);
  /// Prepares a block. To be called by the rank that owns the memory, before any peer reads it.
  /// Counters begin at `first`.
  static void begin(std::byte* base, int size, std::uint32_t first = 0);
  /// Whether begin() has prepared the bytes_for(size) bytes at `base` for `size` ranks.
  [[nodiscard]] static bool is_at(const std::byte* base, int size);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] RankLines& lines(int rank) const { return lines_[rank]; }
  /// Returns where `rank` puts its data of a round.
  [[nodiscard]] std::byte* slot(int rank, std::uint32_t round) const {
    return slots_ + (static_cast<std::size_t>(rank) * kSlots + round % kSlots) * slot_bytes_;
  }

  [[nodiscard]] std::size_t mail_slot_bytes() const { return mail_slot_bytes_; }
  /// Returns where `rank` puts a piece of a message.
  [[nodiscard]] std::byte* mail_slot(int rank, std::uint32_t turn) const {
    return mail_ + (static_cast<std::size_t>(rank) * kSlots + turn % kSlots) * mail_slot_bytes_;
  }

  /// Ends the part of `rank` in the group and wakes the peers that wait for it. `reason` is cut to
  /// fit.
  void leave(int rank, Standing standing, const std::string& reason) const noexcept;
  [[nodiscard]] std::string reason(int rank) const;

 private:
  int size_;
  std::size_t slot_bytes_;
  std::size_t mail_slot_bytes_;
  RankLines* lines_;
  std::byte* slots_;
  std::byte* mail_;
};

}  // namespace accelerate::detail
