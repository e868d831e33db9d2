// all_reduce and reduce_scatter over two levels.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "accelerate/comm/chunk_pipeline.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/hierarchical_collectives.h"

namespace accelerate::detail {
namespace {

using std::int64_t;

// Up to this size every leader receives all sums and adds them up: one round trip instead of two.
constexpr int64_t kSmallBytes = 16 * 1024;

// Returns the operation for the level inside. A mean is a sum there, divided at the end by the
// number of all ranks.
ReduceOp undivided(ReduceOp op) {
  return op == ReduceOp::mean ? ReduceOp::sum : op;
}

void combine(at::Tensor total, const at::Tensor& next, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      total.add_(next);
      return;
    case ReduceOp::min:
      at::minimum_out(total, total, next);
      return;
    case ReduceOp::max:
      at::maximum_out(total, total, next);
      return;
    case ReduceOp::product:
      total.mul_(next);
      return;
    case ReduceOp::band:
      total.bitwise_and_(next);
      return;
    case ReduceOp::bor:
      total.bitwise_or_(next);
      return;
    case ReduceOp::bxor:
      total.bitwise_xor_(next);
      return;
  }
}

// Reduces the rows, one per host, in the order of hosts. The result is in the first row.
at::Tensor fold(const at::Tensor& rows, ReduceOp op) {
  for (int64_t host = 1; host < rows.size(0); ++host) combine(rows[0], rows[host], op);
  return rows[0];
}

class AllReduce {
 public:
  AllReduce(const Levels& levels, const at::Tensor& tensor, ReduceOp op)
      : levels_(levels),
        tensor_(plain(tensor)),
        op_(op),
        dtype_(accumulation_type(tensor.scalar_type(), op)),
        chunks_(in_chunks(tensor_.numel(), static_cast<int64_t>(c10::elementSize(dtype_)),
                          levels.chunk_bytes)) {}

  void run() {
    run_pipeline<5>(chunks_.count(),
                    {[this](int64_t k) { reduce_inside(k); }, [this](int64_t k) { exchange(k); },
                     [this](int64_t k) { add_up(k); }, [this](int64_t k) { share(k); },
                     [this](int64_t k) { levels_.inside.wait(slots_[k].shared); }});
  }

 private:
  struct Slot {
    at::Tensor result;  // the chunk in the caller's memory
    at::Tensor sum;     // the chunk in dtype_: `result` itself if it has that dtype
    at::Tensor heads;   // [hosts, columns]: this leader's slice of every host's sum; else empty
    at::Tensor tails;   // [hosts, columns]: the rest after equal slices; all of a small chunk
    Work reduced, slices, rest, gathered, shared;
  };

  [[nodiscard]] int64_t hosts() const { return levels_.layout.hosts(); }

  [[nodiscard]] bool is_small(const at::Tensor& sum) const {
    return static_cast<int64_t>(sum.nbytes()) <= kSmallBytes || sum.numel() < hosts();
  }
  [[nodiscard]] int64_t head_of(const at::Tensor& sum) const {
    return is_small(sum) ? 0 : sum.numel() - sum.numel() % hosts();
  }

  void reduce_inside(int64_t k) {
    Slot& s = slots_[k];
    s.result = tensor_.narrow(0, chunks_.begin(k), chunks_.size(k));
    s.sum = s.result.to(dtype_);
    s.reduced = levels_.inside(
        [&](Communicator& inside) { return inside.reduce(s.sum, 0, undivided(op_)); });
  }

  void exchange(int64_t k) {
    Slot& s = slots_[k];
    levels_.inside.wait(s.reduced);
    if (!levels_.layout.leads()) return;
    const int64_t head = head_of(s.sum);
    const int64_t tail = s.sum.numel() - head;
    s.heads = at::empty({hosts(), head / hosts()}, s.sum.options());
    s.tails = at::empty({hosts(), tail}, s.sum.options());
    levels_.between([&](Communicator& between) {
      if (head > 0) s.slices = between.all_to_all(s.heads, s.sum.narrow(0, 0, head));
      if (tail > 0) s.rest = between.all_gather(s.tails, s.sum.narrow(0, head, tail));
    });
  }

  void add_up(int64_t k) {
    Slot& s = slots_[k];
    if (!levels_.layout.leads()) return;
    const int64_t head = head_of(s.sum);
    if (head > 0) {
      levels_.between.wait(s.slices);
      const at::Tensor mine = fold(s.heads, op_);
      s.gathered = levels_.between([&](Communicator& between) {
        return between.all_gather(s.sum.narrow(0, 0, head), mine);
      });
    }
    if (s.sum.numel() == head) return;
    levels_.between.wait(s.rest);
    s.sum.narrow(0, head, s.sum.numel() - head).copy_(fold(s.tails, op_));
  }

  void share(int64_t k) {
    Slot& s = slots_[k];
    if (levels_.layout.leads()) {
      levels_.between.wait(s.gathered);
      if (op_ == ReduceOp::mean) s.sum.div_(levels_.layout.size());
      if (!s.sum.is_same(s.result)) s.result.copy_(s.sum);
    }
    s.shared = levels_.inside([&](Communicator& inside) { return inside.broadcast(s.result, 0); });
  }

  const Levels& levels_;
  at::Tensor tensor_;
  ReduceOp op_;
  at::ScalarType dtype_;
  Chunks chunks_;
  Slots<Slot, 5> slots_;
};

class ReduceScatter {
 public:
  ReduceScatter(const Levels& levels, const at::Tensor& output, const at::Tensor& input,
                ReduceOp op)
      : levels_(levels),
        output_(plain(output)),
        input_(plain(input).view({levels.layout.size(), output_.numel()})),
        op_(op),
        dtype_(accumulation_type(input.scalar_type(), op)),
        chunks_(in_chunks(output_.numel(),
                          static_cast<int64_t>(c10::elementSize(dtype_)) * levels.layout.size(),
                          levels.chunk_bytes)) {}

  void run() {
    run_pipeline<4>(chunks_.count(),
                    {[this](int64_t k) { reduce_inside(k); }, [this](int64_t k) { exchange(k); },
                     [this](int64_t k) { add_up_and_scatter(k); },
                     [this](int64_t k) { levels_.inside.wait(slots_[k].scattered); }});
  }

 private:
  struct Slot {
    at::Tensor sums;        // [hosts, ranks of the largest, columns]: a row for each rank
    at::Tensor from_hosts;  // the same shape: the rows of this host's ranks, from every host
    at::Tensor own;         // [ranks of this host, columns] in the caller's dtype
    Work reduced, exchanged, scattered;
  };

  void reduce_inside(int64_t k) {
    Slot& s = slots_[k];
    const auto& layout = levels_.layout;
    s.sums = at::zeros({layout.hosts(), layout.most(), chunks_.size(k)},
                       at::TensorOptions().dtype(dtype_));
    for (int rank = 0; rank < layout.size(); ++rank) {
      s.sums[layout.host_of(rank)][layout.place_of(rank)].copy_(
          input_[rank].narrow(0, chunks_.begin(k), chunks_.size(k)));
    }
    s.reduced = levels_.inside(
        [&](Communicator& inside) { return inside.reduce(s.sums, 0, undivided(op_)); });
  }

  void exchange(int64_t k) {
    Slot& s = slots_[k];
    levels_.inside.wait(s.reduced);
    if (!levels_.layout.leads()) return;
    s.from_hosts = at::empty_like(s.sums);
    s.exchanged = levels_.between(
        [&](Communicator& between) { return between.all_to_all(s.from_hosts, s.sums); });
  }

  void add_up_and_scatter(int64_t k) {
    Slot& s = slots_[k];
    std::vector<at::Tensor> parts;
    if (levels_.layout.leads()) {
      levels_.between.wait(s.exchanged);
      const at::Tensor total = fold(s.from_hosts, op_);
      if (op_ == ReduceOp::mean) total.div_(levels_.layout.size());
      s.own = total.to(output_.scalar_type());
      const auto ranks = levels_.layout.members(levels_.layout.host()).size();
      for (std::size_t i = 0; i < ranks; ++i) parts.push_back(s.own[static_cast<int64_t>(i)]);
    }
    const at::Tensor place = output_.narrow(0, chunks_.begin(k), chunks_.size(k));
    s.scattered = levels_.inside(
        [&](Communicator& inside) { return inside.scatter(place, std::move(parts), 0); });
  }

  const Levels& levels_;
  at::Tensor output_;
  at::Tensor input_;
  ReduceOp op_;
  at::ScalarType dtype_;
  Chunks chunks_;
  Slots<Slot, 4> slots_;
};

}  // namespace

void all_reduce_by_host(const Levels& levels, const at::Tensor& tensor, ReduceOp op) {
  AllReduce(levels, tensor, op).run();
}

void reduce_scatter_by_host(const Levels& levels, const at::Tensor& output, const at::Tensor& input,
                            ReduceOp op) {
  ReduceScatter(levels, output, input, op).run();
}

}  // namespace accelerate::detail
