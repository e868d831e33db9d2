// The standard descriptors.
#pragma once

namespace accelerate::cli {

/// Opens /dev/null for each standard descriptor that is closed. Otherwise a pipe or file of ours
/// could become descriptor 0, 1 or 2 of a rank.
void secure_standard_descriptors();

}  // namespace accelerate::cli
