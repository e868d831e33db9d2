// How gradients are packed for communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accelerate {

struct BucketLimits {
  std::int64_t first_bytes = std::int64_t{1} << 20;  ///< Small, so that communication starts early.
  std::int64_t cap_bytes = std::int64_t{25} << 20;   ///< Of every further bucket.
};

/// Groups of indices into `parameters`, in the order in which buckets are reduced: parameters are
/// taken last to first, which is roughly the order in which backward reaches them, and a bucket
/// holds one dtype and device. A parameter larger than the limit has a bucket of its own. A
/// function of the parameters alone, so that all ranks agree and a resumed run packs as the first
/// one did.
[[nodiscard]] std::vector<std::vector<std::size_t>> assign_buckets(
    const std::vector<at::Tensor>& parameters, const BucketLimits& limits);

}  // namespace accelerate
