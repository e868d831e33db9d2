// all_gather, broadcast and barrier over two levels.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "accelerate/comm/chunk_pipeline.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/hierarchical_collectives.h"

namespace accelerate::detail {
namespace {

using std::int64_t;

class AllGather {
 public:
  AllGather(const Levels& levels, const at::Tensor& output, const at::Tensor& input)
      : levels_(levels),
        input_(as_bytes(plain(input))),
        output_(as_bytes(plain(output)).view({levels.layout.size(), input_.numel()})),
        chunks_(in_chunks(input_.numel(), levels.layout.size(), levels.chunk_bytes)) {}

  void run() {
    run_pipeline<4>(chunks_.count(),
                    {[this](int64_t k) { gather_inside(k); }, [this](int64_t k) { exchange(k); },
                     [this](int64_t k) { share(k); }, [this](int64_t k) { put_in_order(k); }});
  }

 private:
  struct Slot {
    at::Tensor own;  // [ranks of the largest host, columns]: the rows of this host's ranks
    at::Tensor all;  // [hosts, ranks of the largest host, columns]
    Work gathered, exchanged, shared;
  };

  void gather_inside(int64_t k) {
    Slot& s = slots_[k];
    const auto& layout = levels_.layout;
    std::vector<at::Tensor> rows;
    if (layout.leads()) {
      s.own = at::zeros({layout.most(), chunks_.size(k)}, input_.options());
      const auto ranks = layout.members(layout.host()).size();
      for (std::size_t i = 0; i < ranks; ++i) rows.push_back(s.own[static_cast<int64_t>(i)]);
    }
    const at::Tensor mine = input_.narrow(0, chunks_.begin(k), chunks_.size(k));
    s.gathered = levels_.inside(
        [&](Communicator& inside) { return inside.gather(std::move(rows), mine, 0); });
  }

  void exchange(int64_t k) {
    Slot& s = slots_[k];
    levels_.inside.wait(s.gathered);
    const auto& layout = levels_.layout;
    s.all = at::empty({layout.hosts(), layout.most(), chunks_.size(k)}, input_.options());
    if (!layout.leads()) return;
    s.exchanged =
        levels_.between([&](Communicator& between) { return between.all_gather(s.all, s.own); });
  }

  void share(int64_t k) {
    Slot& s = slots_[k];
    if (levels_.layout.leads()) levels_.between.wait(s.exchanged);
    s.shared = levels_.inside([&](Communicator& inside) { return inside.broadcast(s.all, 0); });
  }

  void put_in_order(int64_t k) {
    Slot& s = slots_[k];
    levels_.inside.wait(s.shared);
    const auto& layout = levels_.layout;
    for (int rank = 0; rank < layout.size(); ++rank) {
      output_[rank]
          .narrow(0, chunks_.begin(k), chunks_.size(k))
          .copy_(s.all[layout.host_of(rank)][layout.place_of(rank)]);
    }
  }

  const Levels& levels_;
  at::Tensor input_;
  at::Tensor output_;
  Chunks chunks_;
  Slots<Slot, 4> slots_;
};

class Broadcast {
 public:
  Broadcast(const Levels& levels, const at::Tensor& tensor, int source)
      : levels_(levels),
        tensor_(as_bytes(plain(tensor))),
        source_(source),
        on_host_of_source_(levels.layout.host() == levels.layout.host_of(source)),
        chunks_(in_chunks(tensor_.numel(), 1, levels.chunk_bytes)) {}

  void run() {
    run_pipeline<4>(chunks_.count(),
                    {[this](int64_t k) { leave_source(k); }, [this](int64_t k) { exchange(k); },
                     [this](int64_t k) { arrive(k); },
                     [this](int64_t k) { levels_.inside.wait(slots_[k].inside); }});
  }

 private:
  struct Slot {
    Work inside, between;
  };

  [[nodiscard]] at::Tensor part(int64_t k) const {
    return tensor_.narrow(0, chunks_.begin(k), chunks_.size(k));
  }
  void spread(int64_t k, int from) {
    slots_[k].inside =
        levels_.inside([&](Communicator& inside) { return inside.broadcast(part(k), from); });
  }

  void leave_source(int64_t k) {
    if (on_host_of_source_) spread(k, levels_.layout.place_of(source_));
  }

  void exchange(int64_t k) {
    if (!levels_.layout.leads()) return;
    if (on_host_of_source_) levels_.inside.wait(slots_[k].inside);
    slots_[k].between = levels_.between([&](Communicator& between) {
      return between.broadcast(part(k), levels_.layout.host_of(source_));
    });
  }

  void arrive(int64_t k) {
    if (levels_.layout.leads()) levels_.between.wait(slots_[k].between);
    if (!on_host_of_source_) spread(k, 0);
  }

  const Levels& levels_;
  at::Tensor tensor_;
  int source_;
  bool on_host_of_source_;
  Chunks chunks_;
  Slots<Slot, 4> slots_;
};

}  // namespace

void all_gather_by_host(const Levels& levels, const at::Tensor& output, const at::Tensor& input) {
  AllGather(levels, output, input).run();
}

void broadcast_by_host(const Levels& levels, const at::Tensor& tensor, int source) {
  Broadcast(levels, tensor, source).run();
}

void barrier_by_host(const Levels& levels) {
  const auto arrive = [](Communicator& level) { level.barrier(); };
  levels.inside(arrive);
  if (levels.layout.leads()) levels.between(arrive);
  levels.inside(arrive);
}

}  // namespace accelerate::detail
