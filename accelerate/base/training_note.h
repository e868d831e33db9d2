// Records that this process trains: a process that does must not be forked.
#pragma once

namespace accelerate::detail {

/// Call it where a process learns its rank.
void note_training();
[[nodiscard]] bool is_training();

}  // namespace accelerate::detail
