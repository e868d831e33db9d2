// Splits the command line of `accelerate launch`. Our flags come before the program; everything
// from the program on belongs to the program and is left untouched. Flags are read strictly against
// a table.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "accelerate/launch/flags.h"

namespace accelerate {

struct LaunchArguments {
  /// The given flags, by name with underscores, with their checked text. If a flag is given twice,
  /// the last value counts.
  std::map<std::string, std::string> flags;
  /// The program and its arguments; empty if none was given.
  std::vector<std::string> program;
  /// Whether -h or --help was among our flags.
  bool help = false;
};

/// Reads `words`, which do not include the name of the command. `--a-b v`, `--a_b v` and `--a_b=v`
/// mean the same. There are no abbreviations. `--` ends our flags. Throws ConfigError for an
/// unknown flag (with the nearest known one), a missing value, and a value of the wrong kind.
[[nodiscard]] LaunchArguments split_arguments(const std::vector<std::string>& words,
                                              std::span<const Flag> table);

}  // namespace accelerate
