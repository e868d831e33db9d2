// Parcels between ranks that may be of different size, and not of all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/tensor/parcel.h"

namespace accelerate::detail {

/// The parcels of ranks 0 … `ranks` − 1, in rank order, each with bytes to spare behind its end.
/// [collective over those ranks; the others must not call] Cost: two rounds, of 8 bytes and of the
/// longest parcel; when not all ranks take part, from each to each.
[[nodiscard]] std::vector<at::Tensor> exchange_parcels(Communicator& communicator,
                                                       const ParcelWriter& parcel, int ranks);

/// The values of ranks 0 … `ranks` − 1. As exchange_parcels.
template <Portable T>
[[nodiscard]] std::vector<T> exchange(Communicator& communicator, T& value, int ranks) {
  std::vector<T> values;
  for (at::Tensor& parcel : exchange_parcels(communicator, to_parcel(value), ranks)) {
    values.push_back(from_parcel<T>(std::move(parcel)));
  }
  return values;
}

}  // namespace accelerate::detail
