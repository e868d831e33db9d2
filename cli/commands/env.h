// `accelerate env`: prints what a bug report needs to say about the machine.
#pragma once

#include <filesystem>
#include <optional>
#include <ostream>

namespace CLI {
class App;
}

namespace accelerate::cli {

struct EnvOptions {
  std::optional<std::filesystem::path> config_file;  ///< The default file when absent.
  bool without_libtorch = false;                     ///< Starts no process to ask LibTorch.
};

void setup_env(CLI::App& app, int& exit_code);

/// Prints the facts, then the configuration. LibTorch is loaded in another process. Throws
/// ConfigError when a configuration file exists and cannot be read.
int run_env(const EnvOptions& options, std::ostream& out);

}  // namespace accelerate::cli
