// `accelerate config` asks questions and writes a configuration file of the answers. Its
// sub-commands: `default` writes one for this machine, `update` rewrites one in today's form.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "accelerate/config/cluster_config.h"

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

/// All GPUs of one machine, or one process on the CPU.
[[nodiscard]] ClusterConfig config_for_this_machine(const ConfigDefaultOptions& options);

/// Writes a file for one machine: all its GPUs, or one process on the CPU. An existing file is left
/// alone, which is no failure. Returns the exit code.
int run_config_default(const ConfigDefaultOptions& options, std::ostream& out);

/// Reads a file and writes it again: legacy keys translated, defaults filled in. Returns the exit
/// code; throws ConfigError when the file is missing or wrong, and then leaves it as it was.
int run_config_update(const ConfigUpdateOptions& options, std::ostream& out);

/// Of `accelerate config`.
struct ConfigOptions {
  std::optional<std::filesystem::path> config_file;  ///< default_config_file() when absent.
};

/// Asks, on a screen where standard input and output are a terminal that can be drawn on, else in
/// lines; writes the file; shows it and the next command. An existing file is shown first and kept
/// unless its replacement is agreed to. Returns the exit code: 0, or 128 + the signal by which the
/// user left. Nothing is written before the last answer. Throws ConfigError when the file could not
/// be written and when the input ends.
int run_config(const ConfigOptions& options);

/// Adds `config` with its sub-commands to `app`; their outcome goes to `exit_code`.
void setup_config(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
