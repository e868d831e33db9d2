#include "accelerate/parallel/sharded/update_count.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <string>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

std::string times(std::int64_t count) {
  return count == 1 ? "once" : std::to_string(count) + " times";
}

}  // namespace

void require_equal_updates(const std::vector<std::int64_t>& counts) {
  const auto other =
      std::ranges::find_if(counts, [&](std::int64_t count) { return count != counts.front(); });
  if (other == counts.end()) return;
  throw UsageError(
      "rank 0 has updated a sharded model " + times(counts.front()) + " and rank " +
      std::to_string(other - counts.begin()) + " " + times(*other) +
      " since it was prepared or loaded, so the slices that they keep are of different steps. Call "
      "optimizer.step() equally often on all ranks. load_state() brings all ranks to one step "
      "again");
}

void require_equal_updates(Communicator& ranks, std::int64_t updates) {
  if (ranks.size() == 1) return;
  const at::Tensor mine = at::full({1}, updates, at::kLong);
  const at::Tensor all = mine.new_empty({ranks.size()});
  ranks.all_gather(all, mine).wait();
  const auto* counts = all.const_data_ptr<std::int64_t>();
  require_equal_updates({counts, counts + all.numel()});
}

}  // namespace accelerate::detail
