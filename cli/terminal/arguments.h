// Splits the command line of `accelerate launch`: our flags come before the program, everything
// from the program on is the program's and is left untouched. Flags are read strictly against a
// table.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "accelerate/launch/flags.h"

namespace accelerate::cli {

struct Arguments {
  /// Flags that were given, by name with underscores, as their checked text. A flag given twice has
  /// its last value.
  std::map<std::string, std::string> flags;
  /// The program and its arguments; empty when there was none.
  std::vector<std::string> program;
  /// -h or --help stood among our flags.
  bool help = false;
};

/// Reads `words`, which do not include the name of the command. `--a-b v`, `--a_b v`, `--a_b=v` are
/// one; no abbreviations; `--` ends our flags. Throws ConfigError for an unknown flag (with the
/// nearest known one), a missing value and a value of the wrong kind.
[[nodiscard]] Arguments split_arguments(const std::vector<std::string>& words,
                                        std::span<const Flag> table);

}  // namespace accelerate::cli
