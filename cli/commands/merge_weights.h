// `accelerate merge-weights`: merges the shards of a model into safetensors files that every tool
// reads.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>

#include "accelerate/formats/shards/merged_weights.h"

namespace accelerate::cli {

struct MergeCommandOptions {
  std::filesystem::path source;  ///< A folder; see merge_weights.
  std::filesystem::path output;  ///< A folder; made if it is missing.
  MergeWeightsOptions merge = {};
};

/// Merges and says on `out` what was written. Returns the exit code. Throws what merge_weights
/// throws. Starts no process and loads no LibTorch.
int run_merge_weights(const MergeCommandOptions& options, std::ostream& out);

/// Adds `merge-weights` to `app`; its outcome goes to `exit_code`.
void setup_merge_weights(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
