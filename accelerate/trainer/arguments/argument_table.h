// Two tables that say everything about the arguments of a training. The first has those that have
// an effect here, with name, type, range and meaning: flags, files, validate(), --help and
// docs/training_arguments.md all come from it. The second has those that belong to Python alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "accelerate/config/key_table.h"
#include "accelerate/trainer/arguments/training_arguments.h"

namespace accelerate::detail {

/// Arguments under one heading of --help and of the documentation.
struct ArgumentGroup {
  std::string title;
  std::vector<Key<TrainingArguments>> keys;
};

/// Every field of TrainingArguments, in groups.
[[nodiscard]] const std::vector<ArgumentGroup>& argument_groups();

/// The same as one table, whose find() knows aliases too.
[[nodiscard]] const KeyTable<TrainingArguments>& argument_table();

/// Whether Python's TrainingArguments has no such argument.
[[nodiscard]] bool is_of_this_library(const std::string& name);

/// An argument of Python's TrainingArguments that has no field here.
struct PythonArgument {
  std::string name;
  Node fallback;  ///< Python's default.
  bool refused;   ///< Another value than the default is an error, else a warning.
  /// Why it is not here, and what to do instead: the end of a message.
  std::string reason;
  /// Whether a value is as good as the default.
  std::function<bool(const Node&)> is_harmless;
};

[[nodiscard]] const std::vector<PythonArgument>& python_arguments();

/// The default as --help and the documentation show it: "5e-05", "'linear'", "absent".
[[nodiscard]] std::string default_text(const Key<TrainingArguments>& key);

/// `node` in the spelling of JSON, on one line.
[[nodiscard]] std::string one_line(const Node& node);

}  // namespace accelerate::detail
