// Notes whether this process trains, because then it must not be copied.
#pragma once

namespace accelerate::detail {

/// Call it where a process learns its rank.
void note_training();
[[nodiscard]] bool is_training();

}  // namespace accelerate::detail
