// `accelerate convert`: turns weights of torch.save, or safetensors, into safetensors files.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

namespace accelerate::cli {

struct ConvertOptions {
  std::filesystem::path source;       ///< A file, an index or a folder; see map_weight_files.
  std::filesystem::path destination;  ///< A .safetensors file, or a folder.
  std::string key = {};               ///< Key below which a file of torch.save holds the weights.
  std::optional<std::uint64_t> max_shard_bytes = {};  ///< For a folder; 10 GB when absent.
  bool force = false;   ///< Whether weights at `destination` may be replaced.
  bool expand = false;  ///< Whether to write more than the source's storages hold.
};

/// Writes the weights, compares what was written with the source, byte for byte, and says on `out`
/// what was done. Returns the exit code. Memory: the files are mapped, and tensors pass through one
/// by one. Throws ConfigError when the destination is taken or not possible, and CheckpointError
/// when the weights cannot be read or written. The destination is then as it was before.
int run_convert(const ConvertOptions& options, std::ostream& out);

/// Adds `convert` to `app`; its outcome goes to `exit_code`.
void setup_convert(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
