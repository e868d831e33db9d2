#include "accelerate/comm/call_checks.h"

#include <algorithm>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/comm/communicable_tensors.h"

namespace accelerate::detail {

void check_peer(int rank, int size) {
  if (rank < 0 || rank >= size) {
    throw UsageError("rank " + std::to_string(rank) + " was named in a group of " +
                     std::to_string(size) + " ranks, which are 0 to " + std::to_string(size - 1));
  }
}

void check_members(const std::vector<int>& ranks, int size) {
  for (const int rank : ranks) {
    check_peer(rank, size);
    if (std::count(ranks.begin(), ranks.end(), rank) > 1) {
      throw UsageError("split: rank " + std::to_string(rank) + " is named more than once");
    }
  }
}

void check_parts(const char* what, const at::Tensor& part, const at::Tensor& whole, int size) {
  if (whole.numel() != part.numel() * size || whole.scalar_type() != part.scalar_type()) {
    throw UsageError(std::string(what) + ": the whole is " + describe_tensor(whole) +
                     " and a part is " + describe_tensor(part) + ", but the whole must be " +
                     std::to_string(size) + " parts of the same dtype");
  }
}

}  // namespace accelerate::detail
