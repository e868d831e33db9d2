// Flags and configuration file, merged: the command line wins over the file, the file over the
// defaults, for every key alike.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/config/cluster_config.h"
#include "accelerate/launch/cpu_affinity.h"

namespace accelerate {

/// What the machine offers; a plan for another machine can be made from a struct like this.
struct Machine {
  int gpus = 0;
  int cores = 1;  ///< Physical ones, at most what the control group grants time for.
  /// Where they are, see cpu_cores; empty when that is not known: then no rank is bound to cores.
  std::vector<Core> layout = {};
};

struct LaunchRequest {
  std::map<std::string, std::string> flags;  ///< Given flags by name, checked (see flags.h).
  std::optional<ClusterConfig> config;
  std::filesystem::path config_file;  ///< Where `config` came from, for messages.
};

/// The outcome of the merge. `values` holds every flag that has a value, under the flag's name, as
/// the text that goes into the environment.
struct LaunchSettings {
  std::map<std::string, std::string> values;
  int num_processes = 1;
  int threads_per_process = 1;
  bool use_cpu = false;  ///< Asked for: --cpu, use_cpu or MULTI_CPU.
  bool on_cpu = false;   ///< Asked for, or there is no GPU.
  /// One process, told nothing of ranks: it runs as if it had been started by hand.
  bool alone = false;
  /// Values that only a file can set, by key: fsdp_ignored_modules, fp8_use_mxfp8_block_scaling.
  std::map<std::string, std::string> file_only;
  /// Keys of the file's deepspeed_config, and mixed_precision when the file decided it.
  std::vector<std::string> deepspeed_file_fields;
  /// The cores of each rank on the CPU; empty when ranks are not bound, which `notes` explains.
  std::vector<CoreShare> cores;
  std::vector<std::string> warnings;  ///< For the user, a sentence or block each.
  std::vector<std::string> notes;     ///< For a user who asks for detail, a line each.

  [[nodiscard]] bool has(const std::string& name) const { return values.contains(name); }
  /// The value of a flag; "" when it has none.
  [[nodiscard]] std::string text(const std::string& name) const;
  /// Whether a boolean flag is on.
  [[nodiscard]] bool is_on(const std::string& name) const;
};

/// This machine: gpu_count(), physical_cores() and where the allowed ones are.
[[nodiscard]] Machine this_machine();

/// The ids of "0,2,3" or "GPU-…,MIG-…"; none for "all" and nothing. Throws ConfigError that begins
/// with `where`, for what is no id or stands there twice.
[[nodiscard]] std::vector<std::string> parse_gpu_ids(const std::string& text,
                                                     const std::string& where);

/// Merges and checks. Throws ConfigError, naming the flag or the file's key, for values that are
/// not allowed, flags that exclude each other, and flags whose feature is not built yet.
[[nodiscard]] LaunchSettings merge_settings(const LaunchRequest& request, const Machine& machine);

/// The configuration that a launch with `flags` uses: --config_file, else the default file if it is
/// there and --cpu was not given.
[[nodiscard]] LaunchRequest read_request(std::map<std::string, std::string> flags);

}  // namespace accelerate
