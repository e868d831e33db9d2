// The standard descriptors.
#pragma once

namespace accelerate::cli {

/// Opens /dev/null for each of the standard descriptors that is closed, so that no pipe or file of
/// ours becomes descriptor 0, 1 or 2 of a rank.
void secure_standard_descriptors();

}  // namespace accelerate::cli
