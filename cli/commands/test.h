// `accelerate test`: trains on the configured set-up to find out whether it works.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <optional>

namespace accelerate::cli {

struct TestOptions {
  std::optional<std::filesystem::path> config_file;  ///< As `accelerate launch` takes it.
  bool verbose = false;                              ///< Shows what the ranks print.
};

/// Launches the self-test twice on the configured set-up, in a temporary folder, and writes a table
/// of its checks. Returns the exit code: 0 when all checks passed. Throws ConfigError for a
/// configuration that cannot be launched, and when this build has no LibTorch.
int run_test(const TestOptions& options, std::ostream& out);

/// Adds `test` to `app`; its outcome goes to `exit_code`.
void setup_test(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
