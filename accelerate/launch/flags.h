// The flags of `accelerate launch`, one row each. Parsing, --help, the merge with the configuration
// file and the environment of the ranks all read this table, so they cannot disagree.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// What a flag takes, and how its value is written in the environment.
enum class FlagKind {
  toggle,   ///< Nothing: present is "True", absent "False".
  text,     ///< Any text.
  choice,   ///< One of Flag::choices in any case, kept as it was written.
  integer,  ///< A whole number.
  number,   ///< A number, written as Python writes a float: "1" becomes "1.0".
  truth,    ///< A boolean (yes, true, 1, …), kept as it was written.
  boolean,  ///< A boolean, written "True" or "False".
  bit,      ///< A boolean, written "1" or "0".
  bits,     ///< Three booleans separated by commas, written "1" or "0" each.
};

/// The part of the launch that a flag belongs to. It decides the heading in --help, and when the
/// flag is exported.
enum class FlagGroup {
  general,
  hardware,
  resources,
  paradigm,
  rendezvous,
  fsdp,
  deepspeed,
  megatron,
  parallelism,
  fp8,
  mpi,
  tpu,
  aws
};

/// What this version does with a flag.
enum class FlagStatus {
  works,
  carried,    ///< Handed to the ranks in their environment; the launcher itself does not use it.
  no_effect,  ///< Accepted because upstream has it; there is nothing here for it to change.
  later,      ///< Any value but the default is refused: what it asks for is not built yet.
  not_applicable,  ///< Refused: it is about hardware or services this project does not support.
};

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

/// Checks `text` and returns it as this flag's value is written in the environment. Throws
/// ConfigError, which names `where` ("--num_processes"), the text and what is allowed.
[[nodiscard]] std::string checked_value(const Flag& flag, const std::string& text,
                                        const std::string& where);

/// `value` as Python's str(float) writes it: "1.0", "1e-05", "0.1".
[[nodiscard]] std::string python_float(double value);

}  // namespace accelerate
