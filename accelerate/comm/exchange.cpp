#include "accelerate/comm/exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "accelerate/base/bytes.h"
#include "accelerate/comm/operations.h"

namespace accelerate::detail {
namespace {

constexpr int kTag = 0x7061;  // Far from the tags of users' messages, which begin at 0.

// Returns `mine` of every rank, which has the same length on all ranks.
std::vector<at::Tensor> exchange_alike(Communicator& communicator, const at::Tensor& mine,
                                       int ranks) {
  std::vector<at::Tensor> all(static_cast<std::size_t>(ranks));
  if (ranks == communicator.size()) {
    at::Tensor rows = at::empty({ranks, mine.numel()}, mine.options());
    communicator.all_gather(rows, mine).wait();
    for (int rank = 0; rank < ranks; ++rank) all[static_cast<std::size_t>(rank)] = rows[rank];
    return all;
  }
  std::vector<Work> pending;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& theirs = all[static_cast<std::size_t>(rank)];
    theirs = rank == communicator.rank() ? mine : at::empty_like(mine);
    // Engines of devices run messages one after the other, so one rank of each pair must send
    // first.
    const bool sends_first = communicator.rank() < rank;
    if (rank == communicator.rank()) continue;
    if (sends_first) pending.push_back(communicator.send(mine, rank, kTag));
    pending.push_back(communicator.receive(theirs, rank, kTag));
    if (!sends_first) pending.push_back(communicator.send(mine, rank, kTag));
  }
  for (Work& work : pending) work.wait();
  return all;
}

}  // namespace

std::vector<at::Tensor> exchange_parcels(Communicator& communicator, const ParcelWriter& parcel,
                                         int ranks) {
  if (ranks == communicator.size()) require_agreement(communicator, "gather", "objects");
  const at::Tensor length = at::full({1}, static_cast<std::int64_t>(parcel.size()), at::kLong);
  std::int64_t longest = 0;
  for (const at::Tensor& other : exchange_alike(communicator, length, ranks)) {
    longest = std::max(longest, other.item<std::int64_t>());
  }
  // Rounded up, so that the parcel of each rank begins where a tensor of any dtype may lie.
  longest = round_up(longest, 64);
  const at::Tensor bytes = communicator.empty({longest}, at::kByte);
  parcel.pack(bytes);
  return exchange_alike(communicator, bytes, ranks);
}

}  // namespace accelerate::detail
