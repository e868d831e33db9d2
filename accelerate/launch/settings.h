// Merges flags and configuration file into what a launch needs to know. For every key the command
// line wins over the file, and the file over the defaults.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/machine/cpu_affinity.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/flags.h"
#include "accelerate/launch/machines/scheduler.h"
#include "accelerate/launch/output/output_plan.h"
#include "accelerate/launch/plan.h"

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
  /// What started this launcher, if it says where the machines are. Flags and file win over it.
  std::optional<Scheduler> scheduler = {};

  /// Says who gives the value of `name`, as the beginning of a sentence: "--mixed_precision",
  /// "'mixed_precision' in fsdp.yaml".
  [[nodiscard]] std::string where(const std::string& name) const;
  /// Whether a flag chooses how the ranks train, so that the file's distributed_type does not.
  [[nodiscard]] bool chooses_mode() const;
  /// Whether flags say which machine of how many this is, so that no scheduler is asked.
  [[nodiscard]] bool says_all_of_machines() const;
};

/// A value, and who gives it.
struct Setting {
  enum class Source { fallback, scheduler, file, flag };

  std::string text;  ///< As it goes into the environment.
  Source source = Source::fallback;
  /// See LaunchRequest::where(), or the variable of a scheduler; empty for a default.
  std::string where = {};
};

/// The outcome of the merge. Texts that the launcher itself uses are read once, into the fields
/// below `values`.
struct LaunchOptions {
  /// Every flag that has a value, and every key of the file, by name.
  std::map<std::string, Setting> values;
  int num_processes = 1;              ///< Ranks of this machine.
  int num_machines = 1;               ///< The most that can take part.
  int fewest_machines = 1;            ///< The fewest; another number if machines come and go.
  bool machines_come_and_go = false;  ///< rdzv_backend c10d on several machines.
  int machine_rank = 0;
  int max_restarts = 0;
  std::chrono::milliseconds join_timeout{std::chrono::minutes(10)};       ///< Of rdzv_conf.
  std::chrono::milliseconds last_call_timeout{std::chrono::seconds(30)};  ///< Of rdzv_conf.
  int threads_per_process = 1;
  int main_process_port = 0;  ///< 0: a free one, on one machine.
  std::chrono::milliseconds grace_period{30'000};
  OutputPlan output;    ///< Where ranks write.
  bool on_cpu = false;  ///< Somebody asks for the CPU, or there is no GPU.
  /// Whether there is one process that is told nothing of ranks. It runs as if started by hand.
  bool alone = false;
  bool by_mpirun = false;  ///< mpirun starts the ranks, see mpirun_command().
  /// What the one rank is told that this launcher starts as a task of a scheduler; else empty.
  Environment task = {};
  /// What was taken from a scheduler, as a line for the user; empty if nothing was.
  std::string from_scheduler = {};
  /// Keys of the file's deepspeed_config, and mixed_precision when the file decided it.
  std::vector<std::string> deepspeed_file_fields;
  /// The cores of each rank on the CPU; empty when ranks are not bound, which `notes` explains.
  std::vector<CoreShare> cores;
  std::vector<std::string> warnings;  ///< For the user; each is a sentence or a block.
  std::vector<std::string> notes;     ///< For a user who asks for detail; each is a line.

  [[nodiscard]] bool has(const std::string& name) const { return values.contains(name); }
  /// Returns the value that a flag, the file or a scheduler gives; null for a default, and where there is none.
  [[nodiscard]] const Setting* asked(const std::string& name) const;
  /// The value of a flag; "" when it has none.
  [[nodiscard]] std::string text(const std::string& name) const;
  /// Whether a boolean flag is on.
  [[nodiscard]] bool is_on(const std::string& name) const;
  /// Whether the flags of `group` count; true for groups without a mode.
  [[nodiscard]] bool counts(FlagGroup group) const;
};

/// Returns what this machine offers: gpu_count(), physical_cores() and the cores that are allowed.
[[nodiscard]] Machine this_machine();

/// Reads the ids of "0,2,3" or "GPU-…,MIG-…". Returns none for "all" and "". Throws ConfigError,
/// which begins with `where`, for a word that is not an id or is there twice.
[[nodiscard]] std::vector<std::string> parse_gpu_ids(const std::string& text,
                                                     const std::string& where);

/// Reads the configuration that a launch with `flags` uses: --config_file, else the default file if
/// it is there and --cpu was not given.
[[nodiscard]] LaunchRequest read_request(std::map<std::string, std::string> flags);

/// Merges and checks. Throws ConfigError for values that are not allowed, flags that exclude each
/// other, and flags whose feature is not built yet. The error names the flag or the file's key.
[[nodiscard]] LaunchOptions merge_settings(const LaunchRequest& request, const Machine& machine);

namespace detail {

/// Takes into `settings`, which has flags and file, what only the scheduler of `request` says. Throws
/// ConfigError if that is not enough for several machines, or if flags contradict its tasks.
void take_from_scheduler(const LaunchRequest& request, LaunchOptions& settings);

/// Decides whether mpirun starts the ranks. Warns of keys that name other hosts where there is one machine.
void choose_starter(const LaunchRequest& request, LaunchOptions& settings);

/// Says who gives the value of `name`: LaunchRequest::where(), or a variable of a scheduler.
[[nodiscard]] std::string where_said(const LaunchRequest& request, const LaunchOptions& settings,
                                     const std::string& name);

/// Returns an integer setting that must lie within `range`; nullopt if it has no value. Throws
/// ConfigError.
[[nodiscard]] std::optional<int> ranged(const LaunchRequest& request, const LaunchOptions& settings,
                                        const std::string& name,
                                        std::pair<std::int64_t, std::int64_t> range);

/// Reads how many machines take part, which one this is, how they meet, and how often their ranks are
/// started again. Throws ConfigError.
void read_machines(const LaunchRequest& request, LaunchOptions& settings);

/// Returns warnings of what was given and changes nothing, of keys of the file that newer versions
/// do not have, and the defaults where the user chose little.
[[nodiscard]] std::vector<std::string> advice(const LaunchRequest& request,
                                              const LaunchOptions& settings);

}  // namespace detail
}  // namespace accelerate
