// `accelerate completion` and `accelerate man`: text about the command line, made from the tables
// that parse it.
#pragma once

#include <CLI/CLI.hpp>

namespace accelerate::cli {

/// Adds `completion` and `man` to `app`, which they describe. Their outcome goes to `exit_code`.
void setup_reference(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
