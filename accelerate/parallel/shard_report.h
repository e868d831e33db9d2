// What a sharded model does and takes, for tests and for the eye.
#pragma once

#include <cstddef>
#include <string>

namespace accelerate {

/// Something that a sharded model did; for tests and for inspection.
struct ShardEvent {
  enum class Kind { gather, prefetch, release, reduce };
  Kind kind;
  std::string unit;
  bool operator==(const ShardEvent&) const = default;
};

/// Bytes of a rank's memory for one model.
struct ShardedMemory {
  std::size_t slice_bytes = 0;          ///< This rank's slices of parameters.
  std::size_t full_bytes = 0;           ///< Full values present now, spare slots included.
  std::size_t peak_full_bytes = 0;      ///< The largest full_bytes so far.
  std::size_t gradient_bytes = 0;       ///< Slices of gradients, and units under way.
  std::size_t peak_gradient_bytes = 0;  ///< The largest gradient_bytes so far.
};

}  // namespace accelerate
