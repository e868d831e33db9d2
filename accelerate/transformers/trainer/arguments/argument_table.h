// Two tables that describe all arguments of a training. The first has the arguments that have an
// effect here, with name, type, range and meaning. Flags, files, validate(), --help and
// docs/training_arguments.md all come from it. The second has the arguments that only Python has.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "accelerate/launch/config/key_table.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"

namespace accelerate::detail {

/// Arguments under one heading of --help and of the documentation.
struct ArgumentGroup {
  std::string title;
  std::vector<Key<TrainingArguments>> keys;
};

/// Every field of TrainingArguments, in groups.
[[nodiscard]] const std::vector<ArgumentGroup>& argument_groups();

/// Every field in one table, whose find() knows aliases too.
[[nodiscard]] const KeyTable<TrainingArguments>& argument_table();

/// Whether Python's TrainingArguments has no such argument.
[[nodiscard]] bool is_of_this_library(const std::string& name);

/// An argument of Python's TrainingArguments that has no field here.
struct PythonArgument {
  std::string name;
  Node fallback;  ///< Python's default.
  bool refused;   ///< Whether a value other than the default is an error; else it is a warning.
  /// Why it is not here, and what to do instead: the end of a message.
  std::string reason;
  /// Whether a value has the same effect as the default.
  std::function<bool(const Node&)> is_harmless;
};

[[nodiscard]] const std::vector<PythonArgument>& python_arguments();

/// Returns the default as --help and the documentation show it: "5e-05", "'linear'", "absent".
[[nodiscard]] std::string default_text(const Key<TrainingArguments>& key);

/// Returns `node` in the spelling of JSON, on one line.
[[nodiscard]] std::string one_line(const Node& node);

}  // namespace accelerate::detail
