// The flags of `accelerate launch`, one row each. The rows of a configuration's sections are made
// of the tables of their keys (launch/config/section_tables.cpp). Parsing, --help, the merge with the
// configuration file and the environment of the ranks all read this table, so they cannot disagree.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/launch/config/key_flag.h"

namespace accelerate {

struct Flag {
  std::string name;  ///< With underscores and without dashes: "num_processes".
  FlagKind kind;
  FlagGroup group;
  std::string fallback;  ///< Upstream's default as text; empty when it has none.
  std::string help;      ///< One sentence, without the default.
  FlagStatus status = FlagStatus::works;
  std::vector<std::string> choices = {};  ///< For FlagKind::choice.
  char letter = '\0';                     ///< Short form: 'q' for -q.
  std::string variable = "";  ///< Environment variable, where it does not follow from the name.
};

/// All flags, in the order --help shows them.
[[nodiscard]] std::span<const Flag> launch_flags();

/// The flag called `name`; nullptr when there is none.
[[nodiscard]] const Flag* find_flag(std::string_view name);

/// The heading of a group: "FSDP (with --use_fsdp)".
[[nodiscard]] std::string_view heading(FlagGroup group);

/// A way of training, in which the flags of one group count.
struct Mode {
  FlagGroup group;
  const char* flag;     ///< The flag that chooses it: "use_fsdp".
  const char* value;    ///< What the flag says then.
  const char* section;  ///< The section of a file that holds the group's keys.
  const char* in_file;  ///< What chooses the mode in a file: "distributed_type FSDP".
};

/// All modes; more than one may be on.
[[nodiscard]] std::span<const Mode> launch_modes();

/// Returns the variable that tells the flag's value to the ranks: Flag::variable, or the name in
/// capitals, after ACCELERATE_ for modes and for fp8.
[[nodiscard]] std::string variable_of(const Flag& flag);

/// Whether `value` is what the flag is without being given.
[[nodiscard]] bool is_default(const Flag& flag, const std::string& value);

/// Checks `text` and returns it as this flag's value is written in the environment. Throws
/// ConfigError, which names `where` ("--num_processes"), the text and what is allowed.
[[nodiscard]] std::string checked_value(const Flag& flag, const std::string& text,
                                        const std::string& where);

/// `value` as Python's str(float) writes it: "1.0", "1e-05", "0.1".
[[nodiscard]] std::string python_float(double value);

// The command line of `accelerate launch`: our flags come before the program; everything from the
// program on belongs to the program and is left untouched.

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
