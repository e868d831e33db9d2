// The page that --help prints.
#pragma once

#include "cli/reference/command_text.h"

namespace accelerate::cli {

/// Usage, what the command is for, its arguments, the commands below it and its flags, by their
/// headings, in lines of at most `columns`, from 60 on.
[[nodiscard]] std::string help_page(const CommandText& command, std::size_t columns);

/// Has `app`, and the sub-commands that are added to it later, print these pages.
void use_help_pages(CLI::App& app);

}  // namespace accelerate::cli
