// Exchanges parcels between all or some ranks. The parcels may differ in size.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/tensor/parcel.h"

namespace accelerate::detail {

/// Returns the parcels of ranks 0 … `ranks` − 1, in rank order, each padded at its end.
/// [collective over ranks 0 … `ranks` − 1; other ranks must not call it] Cost: two rounds, of 8
/// bytes and of the longest parcel per rank. When not all ranks take part, each rank sends to each
/// of them directly.
[[nodiscard]] std::vector<at::Tensor> exchange_parcels(Communicator& communicator,
                                                       const ParcelWriter& parcel, int ranks);

/// Returns the values of ranks 0 … `ranks` − 1. As exchange_parcels.
template <Portable T>
[[nodiscard]] std::vector<T> exchange(Communicator& communicator, T& value, int ranks) {
  std::vector<T> values;
  for (at::Tensor& parcel : exchange_parcels(communicator, to_parcel(value), ranks)) {
    values.push_back(from_parcel<T>(std::move(parcel)));
  }
  return values;
}

}  // namespace accelerate::detail
