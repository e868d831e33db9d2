// The page that --help prints.
#pragma once

#include "cli/reference/command_text.h"

namespace accelerate::cli {

// Scripts with which shells complete commands, flags and their values.

/// Return the script for bash, zsh or fish. It completes commands, flags and the words that a flag
/// takes, and file names elsewhere.
[[nodiscard]] std::string bash_completion(const CommandText& program);
[[nodiscard]] std::string zsh_completion(const CommandText& program);
[[nodiscard]] std::string fish_completion(const CommandText& program);

// Manual pages.

/// Returns the page of section 1 called name_of_man_page(command), in the format of man(7).
[[nodiscard]] std::string man_page(const CommandText& command);

/// Returns "accelerate-config-default" for `accelerate config default`.
[[nodiscard]] std::string name_of_man_page(const CommandText& command);

/// Returns usage, what the command is for, its arguments, the commands below it and its flags,
/// under their headings. Lines have at most `columns` columns, but at least 60.
[[nodiscard]] std::string help_page(const CommandText& command, std::size_t columns);

/// Makes `app`, and sub-commands that are added to it later, print these pages.
void use_help_pages(CLI::App& app);

}  // namespace accelerate::cli
