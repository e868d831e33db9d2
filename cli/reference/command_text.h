// Commands and flags as text, from the tables that parse them. Help, man pages and completion use
// it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "accelerate/launch/flags.h"

namespace accelerate::cli {

struct FlagText {
  std::vector<std::string> names;         ///< "-q", "--quiet"; none for a positional argument.
  std::string value = {};                 ///< "FILE", "N|M"; "" for a switch.
  std::string help = {};                  ///< A sentence, with the default.
  std::vector<std::string> choices = {};  ///< All allowed values; none if any value is allowed.
  std::string group = {};                 ///< The heading above it.
};

struct CommandText {
  std::string name = {};       ///< "default"
  std::string full_name = {};  ///< "accelerate config default"
  std::string about = {};
  std::string group = {};                ///< The heading among its neighbours.
  std::vector<FlagText> arguments = {};  ///< Positional; the name is FlagText::value.
  std::vector<FlagText> flags = {};
  std::vector<CommandText> commands = {};
  bool runs_program = false;  ///< Whether the words after its first argument belong to a program.
  std::string more = {};      ///< Shown at the end; see paragraphs_of().
};

struct Paragraph {
  std::string text;
  bool is_verbatim = false;  ///< Whether lines stay as they are.
};

/// Cuts `text` into paragraphs, at empty lines, and wherever lines that begin with a blank meet
/// other lines. Lines that begin with a blank are verbatim; other lines flow.
[[nodiscard]] std::vector<Paragraph> paragraphs_of(const std::string& text);

/// Returns, for example, "accelerate config default".
[[nodiscard]] std::string full_name(const CLI::App& command);

/// How users call the running program: "accelerate-cpp" in the Python wheel, else "accelerate".
[[nodiscard]] std::string own_command();

/// Returns the commit that the last build was made from, with "-dirty" if files differed from it; ""
/// if it was built outside a checkout. cmake/SourceCommit.cmake writes it.
[[nodiscard]] std::string source_commit();

[[nodiscard]] FlagText flag_text(const Flag& flag);

/// Returns the text of `command` and of all commands below it. The flags of `accelerate launch`
/// come from another table.
[[nodiscard]] CommandText command_text(const CLI::App& command);

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
