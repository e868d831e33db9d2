// The page that --help prints.
#pragma once

#include "cli/reference/command_text.h"

namespace accelerate::cli {

/// Returns usage, what the command is for, its arguments, the commands below it and its flags,
/// under their headings. Lines have at most `columns` columns, but at least 60.
[[nodiscard]] std::string help_page(const CommandText& command, std::size_t columns);

/// Makes `app`, and sub-commands that are added to it later, print these pages.
void use_help_pages(CLI::App& app);

}  // namespace accelerate::cli
