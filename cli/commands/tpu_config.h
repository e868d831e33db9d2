// `accelerate tpu-config`, which the original has: refuses, and says why.
#pragma once

#include <CLI/CLI.hpp>

namespace accelerate::cli {

/// Adds `tpu-config` to `app`. It throws ConfigError, whatever its arguments are.
void setup_tpu_config(CLI::App& app);

}  // namespace accelerate::cli
