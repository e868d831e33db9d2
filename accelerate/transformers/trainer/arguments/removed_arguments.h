// The arguments that TrainingArguments of Transformers 4 had and version 5 has not.
#pragma once

#include <optional>
#include <string>

namespace accelerate::detail {

/// Returns the end of a message about the argument `name`: "was removed in Transformers 5; use …".
/// Returns nullopt for an argument that Transformers 5 did not remove, and for removed arguments
/// that this library has. `name` may begin with "no_".
[[nodiscard]] std::optional<std::string> removal_of(const std::string& name);

/// Warns that `name`, which stands for an argument that is still here, is a name of Transformers 4.
void warn_of_old_name(const std::string& name, const std::string& argument);

}  // namespace accelerate::detail
