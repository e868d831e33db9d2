// `accelerate config` and its sub-commands: `default` writes a configuration file for this machine,
// `update` rewrites one in today's form.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "accelerate/config/enums.h"

namespace accelerate::cli {

/// Of `accelerate config default`.
struct ConfigDefaultOptions {
  std::optional<std::filesystem::path> config_file;     ///< default_config_file() when absent.
  MixedPrecision mixed_precision = MixedPrecision::no;  ///< fp8 is not offered.
  int num_gpus = 0;                                     ///< That a program started now would see.
};

/// Of `accelerate config update`.
struct ConfigUpdateOptions {
  std::optional<std::filesystem::path> config_file;  ///< default_config_file() when absent.
};

/// Writes a file for one machine: all its GPUs, or one process on the CPU. An existing file is left
/// alone, which is no failure. Returns the exit code.
int run_config_default(const ConfigDefaultOptions& options, std::ostream& out);

/// Reads a file and writes it again: legacy keys translated, defaults filled in. Returns the exit
/// code; throws ConfigError when the file is missing or wrong, and then leaves it as it was.
int run_config_update(const ConfigUpdateOptions& options, std::ostream& out);

/// Says which sub-commands there are. Returns 1: nothing has been configured.
int run_config(std::ostream& out);

/// Adds `config` with its sub-commands to `app`; their outcome goes to `exit_code`.
void setup_config(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
