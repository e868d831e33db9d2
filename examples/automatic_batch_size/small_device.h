// Stands for a device with little memory, so that the examples run out of memory everywhere.
#pragma once

#include <torch/torch.h>

/// Throws as LibTorch's allocators do when a batch has more than 100 samples.
inline torch::Tensor on_small_device(const torch::Tensor& batch) {
  TORCH_CHECK_WITH(OutOfMemoryError, batch.size(0) <= 100,
                   "Small device out of memory. Tried to compute ", batch.size(0),
                   " samples at once.");
  return batch;
}
