// `accelerate init`: makes a new project that builds and trains.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace accelerate::cli {

struct InitOptions {
  std::filesystem::path folder;        ///< Its last part is the project's name.
  std::string template_name = "loop";  ///< One of template_names().
  int num_gpus = 0;                    ///< As a program started now sees them.
};

/// "trainer", "loop" and "cv".
[[nodiscard]] std::vector<std::string> template_names();

/// Makes the folder and writes the files of cli/project_template into it, with the project's name
/// in them. Adds a configuration for this machine's GPUs, or for two processes on the CPU. Says
/// which commands build and train it, as they work with the package that this command belongs to.
/// Returns the exit code. Throws ConfigError for a name that CMake or a shell would not take, an
/// unknown template, and a folder that is not empty; nothing is written then.
int run_init(const InitOptions& options, std::ostream& out);

/// Adds `init` to `app`; its outcome goes to `exit_code`.
void setup_init(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
