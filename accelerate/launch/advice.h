// What the launcher tells about settings that change nothing, and about defaults.
#pragma once

#include <string>

#include "accelerate/launch/flags.h"
#include "accelerate/launch/settings.h"

namespace accelerate::detail {

/// Says where the value of `name` came from, as the beginning of a sentence.
[[nodiscard]] std::string where(const LaunchRequest& request, const std::string& name);

/// Whether a flag chooses how the ranks train, so that the file's distributed_type does not.
[[nodiscard]] bool mode_was_given(const LaunchRequest& request);

/// Whether `value` is what the flag is without being given.
[[nodiscard]] bool is_default(const Flag& flag, const std::string& value);

/// Adds to `settings.warnings` what was given and changes nothing, which keys of the file newer
/// versions do not have, and the defaults where the user chose little.
void advise(const LaunchRequest& request, LaunchSettings& settings);

}  // namespace accelerate::detail
