// `accelerate estimate-memory`: says how much memory a model takes, and how much its training
// would.
#pragma once

#include <CLI/CLI.hpp>
#include <iosfwd>
#include <string>
#include <vector>

#include "accelerate/launch/config/enums.h"

namespace accelerate::cli {

struct EstimateMemoryOptions {
  std::string model;     ///< A file, a folder, or a model of the hub.
  std::string revision;  ///< Of the repository on the hub; "main" when empty.
  std::vector<std::string> dtypes{"float32", "float16", "int8", "int4"};
  std::vector<int> num_processes{1, 2, 4, 8};
  MixedPrecision mixed_precision = MixedPrecision::no;
};

/// Writes the original's table, a line for each dtype, and a table of strategies by numbers of
/// processes. Returns the exit code. Throws what tensors_of() throws.
int run_estimate_memory(const EstimateMemoryOptions& options, std::ostream& out);

/// Adds `estimate-memory` to `app`; its outcome goes to `exit_code`.
void setup_estimate_memory(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
