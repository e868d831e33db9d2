// Where bytes lie in the memory file of a process.
#pragma once

#include <cstdint>

namespace accelerate::detail {

/// Bytes of a memory file, and the segment they lie in. Segments never move or shrink, and peers
/// map whole segments.
struct SharedExtent {
  std::uint64_t segment_offset = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t offset = 0;  ///< Counted from the start of the file.
  std::uint64_t bytes = 0;
};

}  // namespace accelerate::detail
