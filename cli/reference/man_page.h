// Manual pages.
#pragma once

#include "cli/reference/command_text.h"

namespace accelerate::cli {

/// The page of section 1 called name_of_man_page(command), as man(7) has it.
[[nodiscard]] std::string man_page(const CommandText& command);

/// "accelerate-config-default" for `accelerate config default`.
[[nodiscard]] std::string name_of_man_page(const CommandText& command);

}  // namespace accelerate::cli
