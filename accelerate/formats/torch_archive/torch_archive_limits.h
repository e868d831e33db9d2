// Limits for what is read from a file of torch.save.
#pragma once

#include <cstddef>

namespace accelerate {

/// Our limits for a file. The pickle has its own: 64 MiB and 4 000 000 values.
struct TorchArchiveLimits {
  static constexpr int kDepth = 64;  ///< Deepest nesting of containers.
  /// Memory of the tree, approximately.
  static constexpr std::size_t kTreeBytes = std::size_t{1} << 29;
};

}  // namespace accelerate
