// Commands and flags as text, from the tables that parse them: what help, man pages and completion
// have in common.
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
  std::vector<std::string> choices = {};  ///< All it takes; none where that is open.
  std::string group = {};                 ///< Heading.
};

struct CommandText {
  std::string name = {};       ///< "default"
  std::string full_name = {};  ///< "accelerate config default"
  std::string about = {};
  std::string group = {};                ///< Heading among the commands beside it.
  std::vector<FlagText> arguments = {};  ///< Positional: the name is FlagText::value.
  std::vector<FlagText> flags = {};
  std::vector<CommandText> commands = {};
  bool runs_program = false;  ///< What stands behind its first argument is another program's.
  std::string more = {};      ///< Below all else; see paragraphs_of().
};

struct Paragraph {
  std::string text;
  bool is_verbatim = false;  ///< Lines that stay as they are.
};

/// `text` cut at empty lines, and between lines that begin with a blank, which are verbatim, and
/// others, which flow.
[[nodiscard]] std::vector<Paragraph> paragraphs_of(const std::string& text);

/// "accelerate config default".
[[nodiscard]] std::string full_name(const CLI::App& command);

[[nodiscard]] FlagText flag_text(const Flag& flag);

/// `command` and all below it. The flags of `accelerate launch` come from its own table.
[[nodiscard]] CommandText command_text(const CLI::App& command);

}  // namespace accelerate::cli
