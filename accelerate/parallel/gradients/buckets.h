// How gradients are packed for communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accelerate {

struct BucketLimits {
  std::int64_t first_bytes = std::int64_t{1} << 20;  ///< Small, so that communication starts early.
  std::int64_t cap_bytes = std::int64_t{25} << 20;   ///< Limit of every further bucket.
};

/// Returns groups of indices into `parameters`, one per bucket, in the order in which buckets are
/// reduced. Parameters are taken last to first, which is roughly the order in which backward
/// reaches them. A bucket holds one dtype and device, and is closed by the parameter with which it
/// reaches its limit. The groups depend on the parameters alone, so that all ranks agree and a
/// resumed run packs as the first run did.
[[nodiscard]] std::vector<std::vector<std::size_t>> assign_buckets(
    const std::vector<at::Tensor>& parameters, const BucketLimits& limits);

}  // namespace accelerate
