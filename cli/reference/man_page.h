// Manual pages.
#pragma once

#include "cli/reference/command_text.h"

namespace accelerate::cli {

/// Returns the page of section 1 called name_of_man_page(command), in the format of man(7).
[[nodiscard]] std::string man_page(const CommandText& command);

/// Returns "accelerate-config-default" for `accelerate config default`.
[[nodiscard]] std::string name_of_man_page(const CommandText& command);

}  // namespace accelerate::cli
