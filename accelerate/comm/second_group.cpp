#include "accelerate/comm/second_group.h"

#include <numeric>
#include <vector>

namespace accelerate::detail {

std::shared_ptr<Communicator> split_everyone(Communicator& communicator) {
  std::vector<int> ranks(static_cast<std::size_t>(communicator.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return communicator.split(ranks);
}

const std::shared_ptr<Communicator>& SecondGroup::beside(Communicator& first) {
  if (!is_beside(first)) {
    group_ = split_everyone(first);
    renewals_ = first.renewals();
  }
  return group_;
}

bool SecondGroup::is_beside(const Communicator& first) const {
  return group_ != nullptr && renewals_ == first.renewals();
}

}  // namespace accelerate::detail
