// `accelerate completion` and `accelerate man`: what is written about the command line, from the
// tables that parse it.
#pragma once

#include <CLI/CLI.hpp>

namespace accelerate::cli {

/// Adds `completion` and `man` to `app`, which they describe; their outcome goes to `exit_code`.
void setup_reference(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
