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

[[nodiscard]] FlagText flag_text(const Flag& flag);

/// Returns the text of `command` and of all commands below it. The flags of `accelerate launch`
/// come from another table.
[[nodiscard]] CommandText command_text(const CLI::App& command);

}  // namespace accelerate::cli
