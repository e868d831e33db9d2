#include "accelerate/parallel/sharded/update_count.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {

void require_equal_updates(const std::vector<std::int64_t>& counts) {
  const auto other =
      std::ranges::find_if(counts, [&](std::int64_t count) { return count != counts.front(); });
  if (other == counts.end()) return;
  throw UsageError(
      "rank 0 has made " + count_of(static_cast<std::size_t>(counts.front()), "step") +
      " and rank " + std::to_string(other - counts.begin()) + " has made " +
      count_of(static_cast<std::size_t>(*other), "step") +
      " since the sharded model was prepared or loaded. Their shards belong to different steps. "
      "Call optimizer.step() equally often on all ranks, or load_state() to restore one step");
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
