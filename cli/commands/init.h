// `accelerate init`: a new project that builds and trains.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <string>

namespace accelerate::cli {

struct InitOptions {
  std::filesystem::path folder;  ///< Its last part is the project's name.
  int num_gpus = 0;              ///< That a program started now would see.
};

/// Writes the files of cli/project_template into the folder, which is made, with its name in them,
/// and a configuration for this machine's GPUs, or for two processes on the CPU. Returns the exit
/// code. Throws ConfigError, with nothing written, for a name that CMake or a shell would stumble
/// over and for a folder that holds something.
int run_init(const InitOptions& options, std::ostream& out);

/// Adds `init` to `app`; its outcome goes to `exit_code`.
void setup_init(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
