// The terminal in front of the user.
#pragma once

namespace accelerate::cli {

/// Width of the terminal that standard output is; 80 when it is none.
[[nodiscard]] int terminal_columns();

/// Opens /dev/null for each of the standard descriptors that is closed, so that no pipe or file of
/// ours becomes descriptor 0, 1 or 2 of a rank.
void secure_standard_descriptors();

}  // namespace accelerate::cli
