// The rule for the names of splits, as Python's `datasets` has it.
#pragma once

#include <string_view>

namespace accelerate::detail {

/// Whether a split may have this name: words of letters, digits and '_', with single dots between
/// them. Characters that are not ASCII count as letters.
[[nodiscard]] bool is_split_name(std::string_view name);

}  // namespace accelerate::detail
