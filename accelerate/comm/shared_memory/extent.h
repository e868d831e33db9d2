// Where bytes lie in the memory file of a process.
#pragma once

#include <cstdint>

namespace accelerate::detail {

/// Segments never move or shrink, and peers map them whole.
struct SharedExtent {
  std::uint64_t segment_offset = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t offset = 0;  ///< From the start of the file.
  std::uint64_t bytes = 0;
};

}  // namespace accelerate::detail
