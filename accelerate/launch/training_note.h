// Whether this process trains, for those who would copy it.
#pragma once

namespace accelerate::detail {

/// To be called where a process finds out who it is among others.
void note_training();
[[nodiscard]] bool is_training();

}  // namespace accelerate::detail
