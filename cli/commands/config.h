// `accelerate config` asks questions and writes a configuration file of the answers. Its
// sub-command `default` writes a file for this machine; `update` rewrites a file in today's form.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "accelerate/launch/config/cluster_config.h"

namespace accelerate::cli {

/// Options of `accelerate config default`.
struct ConfigDefaultOptions {
  std::optional<std::filesystem::path> config_file;     ///< default_config_file() when absent.
  MixedPrecision mixed_precision = MixedPrecision::no;  ///< fp8 is not offered.
  int num_gpus = 0;                                     ///< As a program started now sees them.
};

/// Options of `accelerate config update`.
struct ConfigUpdateOptions {
  std::optional<std::filesystem::path> config_file;  ///< default_config_file() when absent.
};

/// Returns a configuration for all GPUs of one machine, or for one process on the CPU.
[[nodiscard]] ClusterConfig config_for_this_machine(const ConfigDefaultOptions& options);

/// Writes a file for one machine: all its GPUs, or one process on the CPU. An existing file is left
/// alone, which is not a failure. Returns the exit code.
int run_config_default(const ConfigDefaultOptions& options, std::ostream& out);

/// Reads a file and writes it again, with legacy keys translated and defaults filled in. Returns
/// the exit code. Throws ConfigError when the file is missing or wrong; the file is then left as it
/// was.
int run_config_update(const ConfigUpdateOptions& options, std::ostream& out);

/// Options of `accelerate config`.
struct ConfigOptions {
  std::optional<std::filesystem::path> config_file;  ///< default_config_file() when absent.
};

/// Asks the questions, writes the file, and shows it and the next command. It asks on a screen if
/// standard input and output are a terminal that can be drawn on, else in lines. An existing file
/// is shown first, and replaced only if the user agrees. Nothing is written before the last answer.
/// Returns the exit code: 0, or 128 + the signal by which the user left. Throws ConfigError when
/// the file cannot be written, and when the input ends.
int run_config(const ConfigOptions& options);

/// Adds `config` with its sub-commands to `app`; their outcome goes to `exit_code`.
void setup_config(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
