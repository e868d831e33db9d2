// How a key of a configuration file is given to `accelerate launch` as a flag.
#pragma once

#include <string>
#include <vector>

namespace accelerate {

/// What a flag takes, and how its value is written in the environment.
enum class FlagKind {
  toggle,   ///< Nothing: present is "True", absent "False".
  text,     ///< Any text.
  word,     ///< Any text, written in lower case.
  choice,   ///< One of Flag::choices in any case, kept as it was written.
  integer,  ///< A whole number.
  range,    ///< A whole number, or the first and the last of some: "2:4".
  number,   ///< A number, written as Python writes a float: "1" becomes "1.0".
  truth,    ///< A boolean (yes, true, 1, …), written in lower case.
  boolean,  ///< A boolean, written "True" or "False".
  bit,      ///< A boolean, written "1" or "0".
  bits,     ///< Three booleans separated by commas, written "1" or "0" each.
};

/// What this version does with a flag.
enum class FlagStatus {
  works,
  carried,    ///< Handed to the ranks in their environment; the launcher itself does not use it.
  no_effect,  ///< Accepted because upstream has it; there is nothing here for it to change.
  later,      ///< Any value but the default is refused: what it asks for is not built yet.
  not_applicable,  ///< Refused: it is about hardware or services this project does not support.
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

/// The flag of a key, "--" and the key's name; its help is what the table says of the key.
struct KeyFlag {
  FlagKind kind;
  std::string fallback = {};  ///< Upstream's default as text; empty if upstream has none.
  std::string variable = {};  ///< The variable of the ranks; empty: what follows from the name.
  FlagStatus status = FlagStatus::carried;
  std::vector<std::string> choices = {};  ///< For FlagKind::choice; empty: the choices of the key.
  FlagGroup group = FlagGroup::general;   ///< Of a key at the top level; a section has its own.
};

}  // namespace accelerate
