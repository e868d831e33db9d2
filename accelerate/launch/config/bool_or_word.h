// The value of a key that takes a boolean or a word.
#pragma once

#include <string>
#include <variant>

namespace accelerate {

/// A key that takes a boolean or a word. `fsdp_reshard_after_forward` is a boolean in FSDP version
/// 2 and a sharding strategy in version 1; `downcast_bf16` is written both `false` and `'no'`.
using BoolOrWord = std::variant<bool, std::string>;

}  // namespace accelerate
