// `accelerate to-fsdp2`: rewrites a configuration file of FSDP 1 for FSDP 2.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/config/cluster_config.h"

namespace accelerate::cli {

struct ToFsdp2Options {
  std::filesystem::path config_file;
  std::optional<std::filesystem::path> output_file;  ///< config_file when absent.
  bool overwrite = false;                            ///< Whether an existing file may be replaced.
};

/// Sets fsdp_version to 2, turns a sharding strategy into fsdp_reshard_after_forward, and leaves
/// out what FSDP 2 no longer has. Returns a note for each change of meaning. A section without
/// keys, or of version 2 already, stays as it is, and a note says so. Source:
/// `convert_config_to_fsdp2` of Accelerate.
std::vector<std::string> convert_to_fsdp2(FullyShardedDataParallelPlugin& fsdp);

/// Rewrites the file and returns the exit code. Throws ConfigError when the file is missing or
/// wrong, or when another file would be replaced; nothing is written then.
int run_to_fsdp2(const ToFsdp2Options& options, std::ostream& out);

/// Adds `to-fsdp2` to `app`; its outcome goes to `exit_code`.
void setup_to_fsdp2(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
