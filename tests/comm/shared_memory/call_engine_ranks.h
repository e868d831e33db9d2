// Ranks of a shared-memory group without processes: threads over one control block, whose "memory
// files" all are this process; and calls that know what they must give.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "accelerate/comm/shared_memory/call_engine.h"
#include "accelerate/comm/shared_memory/in_place_collectives.h"
#include "accelerate/comm/shared_memory/staged_collectives.h"

namespace accelerate::detail {

using Ints = std::vector<std::int32_t>;

class ThisProcess final : public GroupPeers {
 public:
  [[nodiscard]] bool is_alive(int) const noexcept override { return true; }
  [[nodiscard]] std::string describe(int) const override { return "this process"; }
  [[nodiscard]] std::byte* map(int, const SharedExtent& extent) override {
    return reinterpret_cast<std::byte*>(extent.offset);
  }
};

// Ranks that share a control block whose counters begin at `first`.
class Ranks {
 public:
  explicit Ranks(int size, std::uint32_t first = 0, std::chrono::nanoseconds spin = {})
      : memory_(static_cast<std::byte*>(
            ::operator new(ControlBlock::bytes_for(size), std::align_val_t{kCacheLine}))) {
    ControlBlock::begin(memory_, size, first);
    for (int rank = 0; rank < size; ++rank) {
      engines_.push_back(std::make_unique<Engine>(ControlBlock(memory_, size), rank,
                                                  std::make_unique<ThisProcess>(), spin));
    }
  }
  ~Ranks() {
    engines_.clear();
    ::operator delete(memory_, std::align_val_t{kCacheLine});
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(engines_.size()); }
  Engine& operator[](int rank) { return *engines_[static_cast<std::size_t>(rank)]; }
  void end(int rank) { engines_[static_cast<std::size_t>(rank)].reset(); }
  [[nodiscard]] Seat seat(int rank) const {
    return {rank, size(), ControlBlock(memory_, size()).slot_bytes()};
  }

  [[nodiscard]] std::size_t mail_slot_bytes() const {
    return ControlBlock(memory_, size()).mail_slot_bytes();
  }

  void each(const std::function<void(int rank)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) threads.emplace_back(body, rank);
    for (auto& thread : threads) thread.join();
  }

 private:
  std::byte* memory_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

// --- one call of one rank
// --------------------------------------------------------------------------
struct Kind {
  CallKind kind = CallKind::all_reduce;
  int root = -1;
  std::size_t elements = 1;  ///< Of a rank's part.
  bool in_arena = false;
};

// What rank `rank` brings to call `call`, as block `block` of its input.
inline std::int32_t brought(int call, int rank, int block, std::size_t i) {
  return call * 31 + rank * 1'000'003 + block * 10'007 + static_cast<std::int32_t>(i);
}

class Job {
 public:
  Job(const Kind& kind, const Seat& seat, int call)
      : kind_(kind), seat_(seat), call_(call), in_(seat.size * kind.elements) {
    for (int block = 0; block < seat.size; ++block) {
      for (std::size_t i = 0; i < kind.elements; ++i) {
        in_[place(block, i)] = brought(call, seat.rank, block, i);
      }
    }
    out_.resize(in_.size(), -1);
    operation = std::make_shared<Operation>(
        as_called(), who_is_read(),
        [this](const std::vector<std::byte*>& there) { return rounds(there); }, nullptr);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::shared_ptr<Operation> operation;

  void check() const {
    ASSERT_TRUE(operation->is_done());
    for (int block = 0; block < results(); ++block) {
      for (std::size_t i = 0; i < kind_.elements; ++i) {
        const auto found = (is_own_input() ? in_ : out_)[place(block, i)];
        ASSERT_EQ(found, wanted(block, i)) << "call " << call_ << " (" << describe(as_called())
                                           << "), rank " << seat_.rank << ", element " << i;
      }
    }
  }

 private:
  [[nodiscard]] std::size_t place(int block, std::size_t i) const {
    return static_cast<std::size_t>(block) * kind_.elements + i;
  }
  [[nodiscard]] std::size_t bytes() const { return kind_.elements * sizeof(std::int32_t); }
  [[nodiscard]] bool is_root() const { return seat_.rank == kind_.root; }
  [[nodiscard]] bool is_own_input() const {
    return kind_.kind == CallKind::all_reduce || kind_.kind == CallKind::reduce ||
           kind_.kind == CallKind::broadcast;
  }
  [[nodiscard]] int results() const {
    switch (kind_.kind) {
      case CallKind::barrier:
        return 0;
      case CallKind::gather:
        return is_root() ? seat_.size : 0;
      case CallKind::all_gather:
      case CallKind::all_to_all:
        return seat_.size;
      default:
        return 1;
    }
  }

  [[nodiscard]] std::int32_t sum(int block, std::size_t i) const {
    std::uint32_t sum = 0;
    for (int rank = 0; rank < seat_.size; ++rank) {
      sum += static_cast<std::uint32_t>(brought(call_, rank, block, i));
    }
    return static_cast<std::int32_t>(sum);
  }
  [[nodiscard]] std::int32_t wanted(int block, std::size_t i) const {
    switch (kind_.kind) {
      case CallKind::all_reduce:
        return sum(0, i);
      case CallKind::reduce:
        return is_root() ? sum(0, i) : brought(call_, seat_.rank, 0, i);
      case CallKind::reduce_scatter:
        return sum(seat_.rank, i);
      case CallKind::broadcast:
        return brought(call_, kind_.root, 0, i);
      case CallKind::scatter:
        return brought(call_, kind_.root, seat_.rank, i);
      case CallKind::all_to_all:
        return brought(call_, block, seat_.rank, i);
      default:
        return brought(call_, block, 0, i);
    }
  }

  [[nodiscard]] bool brings_all_blocks() const {
    return kind_.kind == CallKind::reduce_scatter || kind_.kind == CallKind::scatter ||
           kind_.kind == CallKind::all_to_all;
  }
  [[nodiscard]] Call as_called() const {
    const bool whole = kind_.kind == CallKind::reduce_scatter || kind_.kind == CallKind::all_to_all;
    Call call{kind_.kind,
              c10::ScalarType::Int,
              ReduceOp::sum,
              kind_.in_arena,
              kind_.root,
              whole ? bytes() * static_cast<std::size_t>(seat_.size) : bytes(),
              {}};
    call.where = {0, ~std::uint64_t{0}, reinterpret_cast<std::uint64_t>(in_.data()),
                  brings_all_blocks() ? in_.size() * sizeof(std::int32_t) : bytes()};
    return call;
  }
  [[nodiscard]] int who_is_read() const {
    if (kind_.kind == CallKind::broadcast || kind_.kind == CallKind::scatter) return kind_.root;
    return kind_.kind == CallKind::reduce || kind_.kind == CallKind::barrier ? kNobody : kEveryone;
  }

  [[nodiscard]] std::vector<std::byte*> blocks(Ints& of) const {
    std::vector<std::byte*> blocks;
    for (int block = 0; block < seat_.size; ++block) {
      blocks.push_back(reinterpret_cast<std::byte*>(of.data() + place(block, 0)));
    }
    return blocks;
  }
  [[nodiscard]] std::vector<std::byte*> blocks_of_root(Ints& of) const {
    return is_root() ? blocks(of) : std::vector<std::byte*>{};
  }
  [[nodiscard]] std::vector<Part> parts(Ints& of) const {
    std::vector<Part> parts;
    for (std::byte* block : blocks(of)) parts.push_back({block, bytes()});
    return parts;
  }

  std::unique_ptr<Rounds> rounds(const std::vector<std::byte*>& there) {
    return there.empty() ? staged() : in_place(there);
  }
  std::unique_ptr<Rounds> staged() {
    const Reduction sum{c10::ScalarType::Int, ReduceOp::sum};
    const Part input{blocks(in_).front(), bytes()}, output{blocks(out_).front(), bytes()};
    switch (kind_.kind) {
      case CallKind::all_reduce:
        return staged_all_reduce(seat_, input, sum);
      case CallKind::reduce:
        return staged_reduce(seat_, input, sum, kind_.root);
      case CallKind::reduce_scatter:
        return staged_reduce_scatter(seat_, output, blocks(in_), sum);
      case CallKind::broadcast:
        return staged_broadcast(seat_, input, kind_.root);
      case CallKind::all_gather:
        return staged_all_gather(seat_, blocks(out_), input);
      case CallKind::gather:
        return staged_gather(seat_, blocks_of_root(out_), input, kind_.root);
      case CallKind::scatter:
        return staged_scatter(seat_, output, blocks_of_root(in_), kind_.root);
      case CallKind::all_to_all:
        return staged_all_to_all(seat_, parts(out_), parts(in_), bytes());
      case CallKind::barrier:
        break;
    }
    return staged_barrier();
  }
  std::unique_ptr<Rounds> in_place(const std::vector<std::byte*>& there) {
    const Reduction sum{c10::ScalarType::Int, ReduceOp::sum};
    const Part input{blocks(in_).front(), bytes()}, output{blocks(out_).front(), bytes()};
    const auto root = static_cast<std::size_t>(std::max(0, kind_.root));
    switch (kind_.kind) {
      case CallKind::all_reduce:
        return in_place_all_reduce(seat_, there, bytes(), sum);
      case CallKind::reduce_scatter:
        return in_place_reduce_scatter(seat_, output, there, sum);
      case CallKind::broadcast:
        return in_place_broadcast(seat_, input, there[root], kind_.root);
      case CallKind::all_gather:
        return in_place_all_gather(seat_, blocks(out_), there, bytes());
      case CallKind::gather:
        return in_place_gather(seat_, blocks_of_root(out_), there, bytes(), kind_.root);
      case CallKind::scatter:
        return in_place_scatter(seat_, output, there[root], kind_.root);
      default:
        return in_place_all_to_all(seat_, blocks(out_).front(), there, bytes());
    }
  }

  Kind kind_;
  Seat seat_;
  int call_;
  Ints in_, out_;
};

// A message of ints: `first`, first + 1, …
struct Mail {
  Mail(Message::Way way, int peer, int tag, std::size_t elements, std::int32_t first,
       bool in_arena = false)
      : data(elements, -1) {
    if (way == Message::Way::send) std::iota(data.begin(), data.end(), first);
    const Part part{reinterpret_cast<std::byte*>(data.data()), elements * sizeof(std::int32_t)};
    Message::Letter letter{way, peer, tag, c10::ScalarType::Int, part};
    if (in_arena) {
      letter.where = SharedExtent{0, ~std::uint64_t{0}, reinterpret_cast<std::uint64_t>(part.data),
                                  part.bytes};
    }
    message = std::make_shared<Message>(letter, nullptr);
  }
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  void check(std::int32_t first) const {
    for (std::size_t i = 0; i < data.size(); ++i) {
      ASSERT_EQ(data[i], first + static_cast<std::int32_t>(i)) << "element " << i;
    }
  }
  Ints data;
  std::shared_ptr<Message> message;
};

}  // namespace accelerate::detail
