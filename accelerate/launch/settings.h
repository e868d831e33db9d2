// Merges flags and configuration file. For every key the command line wins over the file, and the
// file over the defaults.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/machine/cpu_affinity.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/config/retired_keys.h"
#include "accelerate/launch/flags.h"

namespace accelerate {

/// What a machine offers. To plan for another machine, fill in such a struct.
struct Machine {
  int gpus = 0;
  int cores = 1;  ///< Physical cores, at most what the control group grants time for.
  /// The single cores, see cpu_cores. Empty when they are not known; then no rank is bound to
  /// cores.
  std::vector<Core> layout = {};
};

struct LaunchRequest {
  std::map<std::string, std::string> flags;  ///< Given flags by name, checked (see flags.h).
  std::optional<ClusterConfig> config;
  std::filesystem::path config_file;     ///< Where `config` came from, for messages.
  std::vector<RetiredKey> retired = {};  ///< What that file has and newer versions do not.
};

/// Where a value came from.
struct Origin {
  std::string where;     ///< "--mixed_precision", "'mixed_precision' in fsdp.yaml".
  bool is_file = false;  ///< Else a flag.
};

/// The outcome of the merge. `values` holds every flag that has a value, under the flag's name, as
/// the text that goes into the environment.
struct LaunchSettings {
  std::map<std::string, std::string> values;
  /// The values that somebody asked for, by the flag's name. All other values are defaults.
  std::map<std::string, Origin> asked;
  int num_processes = 1;
  int threads_per_process = 1;
  bool use_cpu = false;  ///< The CPU was asked for: --cpu, use_cpu or MULTI_CPU.
  bool on_cpu = false;   ///< The CPU was asked for, or there is no GPU.
  /// Whether there is one process that is told nothing of ranks. It runs as if started by hand.
  bool alone = false;
  /// Values that only a file can set, by key: fsdp_ignored_modules, fp8_use_mxfp8_block_scaling.
  std::map<std::string, std::string> file_only;
  /// Keys of the file's deepspeed_config, and mixed_precision when the file decided it.
  std::vector<std::string> deepspeed_file_fields;
  /// The cores of each rank on the CPU; empty when ranks are not bound, which `notes` explains.
  std::vector<CoreShare> cores;
  std::vector<std::string> warnings;  ///< For the user; each is a sentence or a block.
  std::vector<std::string> notes;     ///< For a user who asks for detail; each is a line.

  [[nodiscard]] bool has(const std::string& name) const { return values.contains(name); }
  /// The value of a flag; "" when it has none.
  [[nodiscard]] std::string text(const std::string& name) const;
  /// Whether a boolean flag is on.
  [[nodiscard]] bool is_on(const std::string& name) const;
};

/// Returns what this machine offers: gpu_count(), physical_cores() and the cores that are allowed.
[[nodiscard]] Machine this_machine();

/// Reads the ids of "0,2,3" or "GPU-…,MIG-…". Returns none for "all" and "". Throws ConfigError,
/// which begins with `where`, for a word that is not an id or is there twice.
[[nodiscard]] std::vector<std::string> parse_gpu_ids(const std::string& text,
                                                     const std::string& where);

/// Merges and checks. Throws ConfigError for values that are not allowed, flags that exclude each
/// other, and flags whose feature is not built yet. The error names the flag or the file's key.
[[nodiscard]] LaunchSettings merge_settings(const LaunchRequest& request, const Machine& machine);

/// Reads the configuration that a launch with `flags` uses: --config_file, else the default file if
/// it is there and --cpu was not given.
[[nodiscard]] LaunchRequest read_request(std::map<std::string, std::string> flags);

}  // namespace accelerate

namespace accelerate::detail {

// What the launcher tells about settings that change nothing, and about defaults.

/// Says where the value of `name` came from, as the beginning of a sentence.
[[nodiscard]] std::string where(const LaunchRequest& request, const std::string& name);

/// Whether a flag chooses how the ranks train, so that the file's distributed_type does not.
[[nodiscard]] bool mode_was_given(const LaunchRequest& request);

/// Whether `value` is what the flag is without being given.
[[nodiscard]] bool is_default(const Flag& flag, const std::string& value);

/// Adds to `settings.warnings` what was given and changes nothing, which keys of the file newer
/// versions do not have, and the defaults where the user chose little.
void advise(const LaunchRequest& request, LaunchSettings& settings);

}  // namespace accelerate::detail
