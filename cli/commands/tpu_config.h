// `accelerate tpu-config`, which the original has: refused, with the reason.
#pragma once

#include <CLI/CLI.hpp>

namespace accelerate::cli {

/// Adds `tpu-config` to `app`. It throws ConfigError whatever it is given.
void setup_tpu_config(CLI::App& app);

}  // namespace accelerate::cli
