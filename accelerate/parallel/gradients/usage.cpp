#include "accelerate/parallel/gradients/usage.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace accelerate::detail {

void Usage::ask(Communicator& communicator, const std::vector<bool>& mine) {
  sent_ = at::zeros({static_cast<std::int64_t>(mine.size())}, at::kInt);
  std::copy(mine.begin(), mine.end(), sent_.mutable_data_ptr<int>());
  work_ = communicator.all_reduce(sent_, ReduceOp::sum);
  pending_ = true;
}

void Usage::wait() {
  if (!std::exchange(pending_, false)) return;
  work_.wait();
  const int* counts = sent_.const_data_ptr<int>();
  counts_.assign(counts, counts + sent_.numel());
}

bool Usage::any() const {
  return std::any_of(counts_.begin(), counts_.end(), [](int count) { return count > 0; });
}

bool Usage::is_unanimous() const {
  return std::all_of(counts_.begin(), counts_.end(),
                     [this](int count) { return count == 0 || count == ranks_; });
}

}  // namespace accelerate::detail
