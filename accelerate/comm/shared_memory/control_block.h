// The memory that a group shares: for each rank its counters, its last calls, and staging slots
// for data that lies in private memory; at the end what tells it from other memory. Every word has
// one writer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "accelerate/comm/shared_memory/call.h"
#include "accelerate/comm/shared_memory/counter.h"

namespace accelerate::detail {

/// Rounds of data that may be under way at once; the ring of slots of each rank.
inline constexpr std::uint32_t kSlots = 4;
/// Calls that stay readable. A rank is at most kSlots rounds, so kSlots + 1 calls, ahead of a peer.
inline constexpr std::uint32_t kCallsKept = 8;
inline constexpr std::size_t kCacheLine = 64;

/// How a rank stands to its group.
enum class Standing : std::uint32_t { taking_part, gave_up, left };

/// A message that its sender offers and its receiver takes. The last two counters are the
/// receiver's; counters go on from one message to the next.
struct Post {
  /// address_of() from the offer, when the rest may be read, until its receiver takes it and sets
  /// it to zero: a receiver that finds its address finds a message that it has not taken, and
  /// nobody changes the post before it does. model/messages.pml.
  alignas(kCacheLine) std::atomic<std::uint64_t> address{0};
  std::uint32_t number = 0;        ///< Counts the sender's messages.
  std::uint32_t taken_before = 0;  ///< `taken` when the message was offered.
  std::uint32_t drained_before = 0;
  std::uint32_t first_turn = 0;  ///< Of the sender's mail slots; set before `filled` is raised.
  c10::ScalarType dtype = c10::ScalarType::Byte;
  bool in_place = false;  ///< The receiver reads it at `where`, in one piece.
  std::uint64_t bytes = 0;
  SharedExtent where{};
  alignas(kCacheLine) Counter filled;  ///< Pieces in the sender's mail slots.
  alignas(kCacheLine) Counter taken;   ///< Messages that were met by a receive.
  Counter drained;                     ///< Pieces that were read.

  [[nodiscard]] static std::uint64_t address_of(int receiver, int tag) {
    return std::uint64_t{1} << 63 | std::uint64_t(static_cast<std::uint32_t>(receiver)) << 32 |
           static_cast<std::uint32_t>(tag);
  }
};

/// Messages of one rank that wait for their receivers at once; further ones queue at the sender.
inline constexpr std::size_t kPosts = 64;

/// What one rank tells the others.
struct RankLines {
  alignas(kCacheLine) Counter posted;   ///< Calls whose description may be read.
  Counter filled;                       ///< Rounds whose data of this rank may be read.
  alignas(kCacheLine) Counter reduced;  ///< Rounds whose slice this rank has reduced.
  alignas(kCacheLine) Counter drained;  ///< Rounds of which this rank reads nothing any more.
  alignas(kCacheLine) std::atomic<Standing> standing{Standing::taking_part};
  std::atomic<std::uint32_t> gone{0};  ///< Set when no thread of the rank looks here any more.
  char reason[4 * kCacheLine - 2 * sizeof(std::uint32_t)]{};  ///< Why it gave up.
  alignas(kCacheLine) Call calls[kCallsKept]{};               ///< By number modulo kCallsKept.
  alignas(kCacheLine) Counter posted_messages;
  Post posts[kPosts]{};
};

class ControlBlock {
 public:
  /// Of a block at `base`, which begin() has prepared, for `size` ranks.
  ControlBlock(std::byte* base, int size);

  [[nodiscard]] static std::size_t bytes_for(int size);
  /// By the rank that owns the memory, before any peer looks at it. Counters begin at `first`.
  static void begin(std::byte* base, int size, std::uint32_t first = 0);
  /// Whether begin() has prepared the bytes_for(size) bytes at `base` for `size` ranks.
  [[nodiscard]] static bool is_at(const std::byte* base, int size);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] RankLines& lines(int rank) const { return lines_[rank]; }
  /// Where `rank` puts its data of a round.
  [[nodiscard]] std::byte* slot(int rank, std::uint32_t round) const {
    return slots_ + (static_cast<std::size_t>(rank) * kSlots + round % kSlots) * slot_bytes_;
  }

  [[nodiscard]] std::size_t mail_slot_bytes() const { return mail_slot_bytes_; }
  /// Where `rank` puts a piece of a message.
  [[nodiscard]] std::byte* mail_slot(int rank, std::uint32_t turn) const {
    return mail_ + (static_cast<std::size_t>(rank) * kSlots + turn % kSlots) * mail_slot_bytes_;
  }

  /// Ends the part of `rank` in the group and wakes who waits for it. `reason` is cut to fit.
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
