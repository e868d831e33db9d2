#include "accelerate/comm/shared_memory/staged_collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "accelerate/comm/shared_memory/kernels.h"
#include "accelerate/comm/shared_memory/slices.h"

namespace accelerate::detail {
namespace {

// Up to this size it is faster that every rank reduces everything than that each reduces a slice.
constexpr std::size_t kReducedByAll = std::size_t{16} << 10;
// From this size on results do not fit in the cache beside the rest, so stores bypass the cache.
constexpr std::size_t kStreamed = std::size_t{16} << 20;

// Copies bytes. Empty tensors may have null addresses, which memcpy does not allow.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes, bool streamed = false) {
  if (to == from || bytes == 0) return;
  if (streamed) {
    copy_streaming(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

// Cuts a tensor into pieces of one round each.
class Pieces {
 public:
  Pieces(std::size_t bytes, std::size_t piece) : bytes_(bytes), piece_(piece) {}
  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(std::max<std::size_t>(1, (bytes_ + piece_ - 1) / piece_));
  }
  [[nodiscard]] std::size_t offset(std::uint32_t round) const { return round * piece_; }
  [[nodiscard]] std::size_t length(std::uint32_t round) const {
    return std::min(piece_, bytes_ - std::min(bytes_, offset(round)));
  }

 private:
  std::size_t bytes_, piece_;
};

// The layout of a slot that holds data for every other rank: the room for one rank, and where the
// data for `peer` begins in the slot of `owner`.
std::size_t room_for_one(const Seat& seat) {
  return whole_lines(seat.slot_bytes / static_cast<std::size_t>(std::max(1, seat.size - 1)));
}
std::size_t place_of(int peer, int owner, std::size_t room) {
  return static_cast<std::size_t>(peer < owner ? peer : peer - 1) * room;
}

class ReducedByAll final : public Rounds {
 public:
  ReducedByAll(const Seat& seat, Part tensor, Reduction reduction, int root)
      : Rounds(1,
               {.filled_to_drain = root == kEveryone || root == seat.rank ? kEveryone : kNobody}),
        seat_(seat),
        tensor_(tensor),
        reduction_(reduction) {}

  void fill(std::uint32_t, std::byte* own_slot) override {
    copy_bytes(own_slot, tensor_.data, tensor_.bytes);
  }
  void drain(std::uint32_t, const Slots& slots) override {
    if (needs().filled_to_drain != kEveryone) return;
    std::vector<const std::byte*> sources(static_cast<std::size_t>(seat_.size));
    for (int peer = 0; peer < seat_.size; ++peer) {
      sources[static_cast<std::size_t>(peer)] = slots.of(peer);
    }
    std::byte* const result = tensor_.data;
    reduce_elements({&result, 1}, sources, tensor_.bytes / c10::elementSize(reduction_.dtype),
                    reduction_.dtype, reduction_.op);
  }

 private:
  Seat seat_;
  Part tensor_;
  Reduction reduction_;
};

class ReducedInSlices final : public Rounds {
 public:
  ReducedInSlices(const Seat& seat, Part tensor, Reduction reduction, int root)
      : Rounds(Pieces(tensor.bytes, seat.slot_bytes).count(),
               {.reduces = true,
                .filled_to_reduce = kEveryone,
                .reduced_to_drain = root == kEveryone || root == seat.rank ? kEveryone : kNobody}),
        seat_(seat),
        tensor_(tensor),
        reduction_(reduction),
        pieces_(tensor.bytes, seat.slot_bytes) {}

  // Copies everything except this rank's slice, which nobody else reads.
  void fill(std::uint32_t round, std::byte* own_slot) override {
    const std::byte* piece = tensor_.data + pieces_.offset(round);
    const Slice own = slice_of(round, seat_.rank);
    copy_bytes(own_slot, piece, own.begin);
    copy_bytes(own_slot + own.end, piece + own.end, pieces_.length(round) - own.end);
  }

  void reduce(std::uint32_t round, const Slots& slots) override {
    const Slice own = slice_of(round, seat_.rank);
    if (own.begin == own.end) return;
    std::byte* const mine = tensor_.data + pieces_.offset(round) + own.begin;
    std::vector<const std::byte*> sources(static_cast<std::size_t>(seat_.size));
    for (int peer = 0; peer < seat_.size; ++peer) {
      sources[static_cast<std::size_t>(peer)] =
          peer == seat_.rank ? mine : slots.of(peer) + own.begin;
    }
    // A rank that does not want the result leaves its tensor as it is.
    std::byte* const results[] = {slots.of(seat_.rank) + own.begin, mine};
    const std::size_t wanted = needs().reduced_to_drain == kEveryone ? 2 : 1;
    reduce_elements({results, wanted}, sources,
                    (own.end - own.begin) / c10::elementSize(reduction_.dtype), reduction_.dtype,
                    reduction_.op);
  }

  void drain(std::uint32_t round, const Slots& slots) override {
    if (needs().reduced_to_drain != kEveryone) return;
    std::byte* const piece = tensor_.data + pieces_.offset(round);
    for (int peer = 0; peer < seat_.size; ++peer) {
      if (peer == seat_.rank) continue;
      const Slice theirs = slice_of(round, peer);
      copy_bytes(piece + theirs.begin, slots.of(peer) + theirs.begin, theirs.end - theirs.begin,
                 tensor_.bytes >= kStreamed);
    }
  }

 private:
  [[nodiscard]] Slice slice_of(std::uint32_t round, int rank) const {
    return slice(pieces_.length(round), rank, seat_.size);
  }

  Seat seat_;
  Part tensor_;
  Reduction reduction_;
  Pieces pieces_;
};

std::unique_ptr<Rounds> reduce_to(const Seat& seat, Part tensor, Reduction reduction, int root) {
  if (tensor.bytes <= std::min(kReducedByAll, seat.slot_bytes)) {
    return std::make_unique<ReducedByAll>(seat, tensor, reduction, root);
  }
  return std::make_unique<ReducedInSlices>(seat, tensor, reduction, root);
}

class StagedReduceScatter final : public Rounds {
 public:
  StagedReduceScatter(const Seat& seat, Part output, std::vector<std::byte*> inputs,
                      Reduction reduction)
      : Rounds(Pieces(output.bytes, room_for_one(seat)).count(), {.filled_to_drain = kEveryone}),
        seat_(seat),
        output_(output),
        inputs_(std::move(inputs)),
        reduction_(reduction),
        room_(room_for_one(seat)),
        pieces_(output.bytes, room_) {}

  void fill(std::uint32_t round, std::byte* own_slot) override {
    for (int peer = 0; peer < seat_.size; ++peer) {
      if (peer == seat_.rank) continue;
      copy_bytes(own_slot + place_of(peer, seat_.rank, room_),
                 inputs_[static_cast<std::size_t>(peer)] + pieces_.offset(round),
                 pieces_.length(round));
    }
  }

  void drain(std::uint32_t round, const Slots& slots) override {
    std::vector<const std::byte*> sources(static_cast<std::size_t>(seat_.size));
    for (int peer = 0; peer < seat_.size; ++peer) {
      sources[static_cast<std::size_t>(peer)] =
          peer == seat_.rank ? inputs_[static_cast<std::size_t>(peer)] + pieces_.offset(round)
                             : slots.of(peer) + place_of(seat_.rank, peer, room_);
    }
    std::byte* const result = output_.data + pieces_.offset(round);
    reduce_elements({&result, 1}, sources,
                    pieces_.length(round) / c10::elementSize(reduction_.dtype), reduction_.dtype,
                    reduction_.op);
  }

 private:
  Seat seat_;
  Part output_;
  std::vector<std::byte*> inputs_;
  Reduction reduction_;
  std::size_t room_;
  Pieces pieces_;
};

class StagedAllGather final : public Rounds {
 public:
  // `root` is the rank that keeps the result, or kEveryone.
  StagedAllGather(const Seat& seat, std::vector<std::byte*> outputs, Part input, int root)
      : Rounds(Pieces(input.bytes, seat.slot_bytes).count(),
               {.filled_to_drain = root == kEveryone || root == seat.rank ? kEveryone : kNobody}),
        seat_(seat),
        outputs_(std::move(outputs)),
        input_(input),
        pieces_(input.bytes, seat.slot_bytes) {}

  void fill(std::uint32_t round, std::byte* own_slot) override {
    const std::byte* piece = input_.data + pieces_.offset(round);
    copy_bytes(own_slot, piece, pieces_.length(round));
    if (keeps()) put(round, seat_.rank, piece);
  }
  void drain(std::uint32_t round, const Slots& slots) override {
    if (!keeps()) return;
    for (int peer = 0; peer < seat_.size; ++peer) {
      if (peer != seat_.rank) put(round, peer, slots.of(peer));
    }
  }

 private:
  [[nodiscard]] bool keeps() const { return needs().filled_to_drain == kEveryone; }
  void put(std::uint32_t round, int rank, const std::byte* piece) {
    copy_bytes(outputs_[static_cast<std::size_t>(rank)] + pieces_.offset(round), piece,
               pieces_.length(round), outputs_.size() * input_.bytes >= kStreamed);
  }

  Seat seat_;
  std::vector<std::byte*> outputs_;
  Part input_;
  Pieces pieces_;
};

class StagedBroadcast final : public Rounds {
 public:
  StagedBroadcast(const Seat& seat, Part tensor, int root)
      : Rounds(Pieces(tensor.bytes, seat.slot_bytes).count(),
               {.filled_to_drain = root == seat.rank ? kNobody : root}),
        tensor_(tensor),
        root_(root),
        gives_(root == seat.rank),
        pieces_(tensor.bytes, seat.slot_bytes) {}

  void fill(std::uint32_t round, std::byte* own_slot) override {
    if (gives_) {
      copy_bytes(own_slot, tensor_.data + pieces_.offset(round), pieces_.length(round));
    }
  }
  void drain(std::uint32_t round, const Slots& slots) override {
    if (gives_) return;
    copy_bytes(tensor_.data + pieces_.offset(round), slots.of(root_), pieces_.length(round),
               tensor_.bytes >= kStreamed);
  }

 private:
  Part tensor_;
  int root_;
  bool gives_;
  Pieces pieces_;
};

class StagedScatter final : public Rounds {
 public:
  StagedScatter(const Seat& seat, Part output, std::vector<std::byte*> inputs, int root)
      : Rounds(Pieces(output.bytes, room_for_one(seat)).count(),
               {.filled_to_drain = root == seat.rank ? kNobody : root}),
        seat_(seat),
        output_(output),
        inputs_(std::move(inputs)),
        root_(root),
        room_(room_for_one(seat)),
        pieces_(output.bytes, room_) {}

  void fill(std::uint32_t round, std::byte* own_slot) override {
    if (seat_.rank != root_) return;
    const std::size_t begin = pieces_.offset(round), length = pieces_.length(round);
    for (int peer = 0; peer < seat_.size; ++peer) {
      const std::byte* piece = inputs_[static_cast<std::size_t>(peer)] + begin;
      if (peer == root_) {
        copy_bytes(output_.data + begin, piece, length);
      } else {
        copy_bytes(own_slot + place_of(peer, root_, room_), piece, length);
      }
    }
  }
  void drain(std::uint32_t round, const Slots& slots) override {
    if (seat_.rank == root_) return;
    copy_bytes(output_.data + pieces_.offset(round),
               slots.of(root_) + place_of(seat_.rank, root_, room_), pieces_.length(round),
               output_.bytes >= kStreamed);
  }

 private:
  Seat seat_;
  Part output_;
  std::vector<std::byte*> inputs_;
  int root_;
  std::size_t room_;
  Pieces pieces_;
};

class StagedAllToAll final : public Rounds {
 public:
  StagedAllToAll(const Seat& seat, std::vector<Part> outputs, std::vector<Part> inputs,
                 std::size_t largest)
      : Rounds(Pieces(largest, room_for_one(seat)).count(), {.filled_to_drain = kEveryone}),
        seat_(seat),
        outputs_(std::move(outputs)),
        inputs_(std::move(inputs)),
        room_(room_for_one(seat)) {}

  void fill(std::uint32_t round, std::byte* own_slot) override {
    for (int peer = 0; peer < seat_.size; ++peer) {
      const Part& part = inputs_[static_cast<std::size_t>(peer)];
      const Pieces pieces(part.bytes, room_);
      const std::size_t length = pieces.length(round);
      if (length == 0) continue;
      const std::byte* piece = part.data + pieces.offset(round);
      if (peer == seat_.rank) {
        copy_bytes(outputs_[static_cast<std::size_t>(peer)].data + pieces.offset(round), piece,
                   length);
      } else {
        copy_bytes(own_slot + place_of(peer, seat_.rank, room_), piece, length);
      }
    }
  }
  void drain(std::uint32_t round, const Slots& slots) override {
    for (int peer = 0; peer < seat_.size; ++peer) {
      const Part& part = outputs_[static_cast<std::size_t>(peer)];
      const Pieces pieces(part.bytes, room_);
      const std::size_t length = pieces.length(round);
      if (peer == seat_.rank || length == 0) continue;
      copy_bytes(part.data + pieces.offset(round),
                 slots.of(peer) + place_of(seat_.rank, peer, room_), length,
                 part.bytes >= kStreamed);
    }
  }

 private:
  Seat seat_;
  std::vector<Part> outputs_, inputs_;
  std::size_t room_;
};

}  // namespace

std::unique_ptr<Rounds> staged_all_reduce(const Seat& seat, Part tensor, Reduction reduction) {
  return reduce_to(seat, tensor, reduction, kEveryone);
}
std::unique_ptr<Rounds> staged_reduce(const Seat& seat, Part tensor, Reduction reduction,
                                      int root) {
  return reduce_to(seat, tensor, reduction, root);
}
std::unique_ptr<Rounds> staged_reduce_scatter(const Seat& seat, Part output,
                                              std::vector<std::byte*> inputs, Reduction reduction) {
  return std::make_unique<StagedReduceScatter>(seat, output, std::move(inputs), reduction);
}
std::unique_ptr<Rounds> staged_all_gather(const Seat& seat, std::vector<std::byte*> outputs,
                                          Part input) {
  return std::make_unique<StagedAllGather>(seat, std::move(outputs), input, kEveryone);
}
std::unique_ptr<Rounds> staged_broadcast(const Seat& seat, Part tensor, int root) {
  return std::make_unique<StagedBroadcast>(seat, tensor, root);
}
std::unique_ptr<Rounds> staged_gather(const Seat& seat, std::vector<std::byte*> outputs, Part input,
                                      int root) {
  return std::make_unique<StagedAllGather>(seat, std::move(outputs), input, root);
}
std::unique_ptr<Rounds> staged_scatter(const Seat& seat, Part output,
                                       std::vector<std::byte*> inputs, int root) {
  return std::make_unique<StagedScatter>(seat, output, std::move(inputs), root);
}
std::unique_ptr<Rounds> staged_all_to_all(const Seat& seat, std::vector<Part> outputs,
                                          std::vector<Part> inputs, std::size_t largest) {
  return std::make_unique<StagedAllToAll>(seat, std::move(outputs), std::move(inputs), largest);
}
std::unique_ptr<Rounds> staged_barrier() {
  return std::make_unique<Rounds>(1, Rounds::Needs{.filled_to_drain = kEveryone});
}

}  // namespace accelerate::detail
