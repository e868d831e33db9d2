// The sub-commands: of each the options, the flags (setup_…) and the work (run_…).
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "accelerate/formats/shards/merged_weights.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/config/enums.h"
#include "accelerate/transformers/hub/patterns.h"
#include "accelerate/transformers/hub/repository.h"
#include "accelerate/transformers/hub/upload.h"

namespace CLI {
class App;
}

namespace accelerate::cli {

// `accelerate config` asks questions and writes a configuration file of the answers. Its
// sub-command `default` writes a file for this machine; `update` rewrites a file in today's form.

/// Options of `accelerate config default`.
struct ConfigDefaultOptions {
  std::optional<std::filesystem::path> config_file;     ///< default_config_file() when absent.
  MixedPrecision mixed_precision = MixedPrecision::no;  ///< fp8 is not offered.
  int num_gpus = 0;                                     ///< As a program started now sees them.
};

/// Options of `accelerate config update`.
struct ConfigUpdateOptions {
  std::optional<std::filesystem::path> config_file;  ///< default_config_file() when absent.
};

/// Returns a configuration for all GPUs of one machine, or for one process on the CPU.
[[nodiscard]] ClusterConfig config_for_this_machine(const ConfigDefaultOptions& options);

/// Writes a file for one machine: all its GPUs, or one process on the CPU. An existing file is left
/// alone, which is not a failure. Returns the exit code.
int run_config_default(const ConfigDefaultOptions& options, std::ostream& out);

/// Reads a file and writes it again, with legacy keys translated and defaults filled in. Returns
/// the exit code. Throws ConfigError when the file is missing or wrong; the file is then left as it
/// was.
int run_config_update(const ConfigUpdateOptions& options, std::ostream& out);

/// Options of `accelerate config`.
struct ConfigOptions {
  std::optional<std::filesystem::path> config_file;  ///< default_config_file() when absent.
};

/// Asks the questions, writes the file, and shows it and the next command. It asks on a screen if
/// standard input and output are a terminal that can be drawn on, else in lines. An existing file
/// is shown first, and replaced only if the user agrees. Nothing is written before the last answer.
/// Returns the exit code: 0, or 128 + the signal by which the user left. Throws ConfigError when
/// the file cannot be written, and when the input ends.
int run_config(const ConfigOptions& options);

/// Adds `config` with its sub-commands to `app`; their outcome goes to `exit_code`.
void setup_config(CLI::App& app, int& exit_code);

// `accelerate convert`: turns weights of torch.save, or safetensors, into safetensors files.

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

// `accelerate env`: prints what a bug report needs to say about the machine.

struct EnvOptions {
  std::optional<std::filesystem::path> config_file;  ///< The default file when absent.
  bool without_libtorch = false;                     ///< Starts no process to ask LibTorch.
};

void setup_env(CLI::App& app, int& exit_code);

/// Prints the facts, then the configuration. LibTorch is loaded in another process. Throws
/// ConfigError when a configuration file exists and cannot be read.
int run_env(const EnvOptions& options, std::ostream& out);

// `accelerate estimate-memory`: says how much memory a model takes, and how much its training
// would.

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

// `accelerate hub`: fetches and sends models and data of Hugging Face's hub.

/// Options of every command of `accelerate hub` that contacts the hub.
struct HubCommandOptions {
  std::string repo_id;
  std::string repo_type = "model";
  std::string token;  ///< Default: the token in the environment, else the stored one.
  HubOptions hub = {};
};

struct DownloadCommandOptions {
  HubCommandOptions common = {};
  std::vector<std::string> files = {};  ///< Default: all files that match `patterns`.
  FilePatterns patterns = {};
};

struct UploadCommandOptions {
  HubCommandOptions common = {};
  std::filesystem::path local_path = ".";
  std::string path_in_repo = {};  ///< Default: a file's name, or the root for a folder.
  bool is_private = false;        ///< Whether a new repository is private.
  UploadFolderOptions upload = {};
};

struct CacheCommandOptions {
  std::filesystem::path cache_dir = {};
  bool shows_revisions = false;
  std::vector<std::string> what = {};  ///< What to remove.
  bool is_sure = false;                ///< Whether to remove without asking.
  bool is_dry_run = false;             ///< Only says what would be removed.
};

/// Each command prints on `out` and returns the exit code. They throw what the functions of hub/
/// throw.
int run_download(DownloadCommandOptions options, std::ostream& out);
int run_upload(UploadCommandOptions options, std::ostream& out);
int run_login(HubCommandOptions options, std::ostream& out);
int run_logout(std::ostream& out);
int run_whoami(HubCommandOptions options, std::ostream& out);
int run_cache_list(const CacheCommandOptions& options, std::ostream& out);
int run_cache_remove(const CacheCommandOptions& options, std::ostream& out);

/// Adds `hub` to `app`; its outcome goes to `exit_code`.
void setup_hub(CLI::App& app, int& exit_code);

// `accelerate init`: makes a new project that builds and trains.

struct InitOptions {
  std::filesystem::path folder;        ///< Its last part is the project's name.
  std::string template_name = "loop";  ///< One of template_names().
  int num_gpus = 0;                    ///< As a program started now sees them.
};

/// "trainer", "loop" and "cv".
[[nodiscard]] std::vector<std::string> template_names();

/// Makes the folder and writes the files of cli/project_template into it, with the project's name
/// in them. Adds a configuration for this machine's GPUs, or for two processes on the CPU. Says
/// which commands build and train it, as they work with the package that this command belongs to.
/// Returns the exit code. Throws ConfigError for a name that CMake or a shell would not take, an
/// unknown template, and a folder that is not empty; nothing is written then.
int run_init(const InitOptions& options, std::ostream& out);

/// Adds `init` to `app`; its outcome goes to `exit_code`.
void setup_init(CLI::App& app, int& exit_code);

// `accelerate launch [flags] program [arguments]`.

/// Adds the command to the list that `accelerate --help` shows. CLI11 does not parse its words:
/// split_arguments splits them, so that the program's own flags stay untouched.
void setup_launch(CLI::App& app);

/// Launches what `words` (without "launch") ask for and returns the exit code. Help goes to `out`,
/// notes and reports to `err`. Throws what split_arguments, merge_settings, make_plan and launch
/// throw.
int run_launch(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

// `accelerate merge-weights`: merges the shards of a model into safetensors files that every tool
// reads.

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

// `accelerate convert-state`: writes a checkpoint so that Python goes on from it.

struct ConvertStateOptions {
  std::filesystem::path source;  ///< A checkpoint of save_state.
  std::filesystem::path output;  ///< A new folder.
  std::string to = "fsdp";       ///< "fsdp" or "universal", which is DeepSpeed's.
};

/// Converts, and says on `out` what was written. Returns the exit code. Throws what
/// write_state_for_python and write_state_for_deepspeed throw, and ConfigError. Starts no process and loads no LibTorch.
int run_convert_state(const ConvertStateOptions& options, std::ostream& out);

/// Adds `convert-state` to `app`; its outcome goes to `exit_code`.
void setup_convert_state(CLI::App& app, int& exit_code);

// `accelerate completion` and `accelerate man`: text about the command line, made from the tables
// that parse it.

/// Adds `completion` and `man` to `app`, which they describe. Their outcome goes to `exit_code`.
void setup_reference(CLI::App& app, int& exit_code);

// `accelerate report`: shows a run as one HTML page.

struct ReportOptions {
  std::filesystem::path run;  ///< A folder, or a file in it; see RunSource.
  /// If empty: report.html in the run's folder; for a checkpoint, checkpoint-N.html beside it.
  std::filesystem::path output = {};
};

/// Writes the page and says on `out` where. An older page stays readable until the new page is
/// complete. Returns the exit code. Throws what RunSource throws, and FileError when the page
/// cannot be written.
int run_report(const ReportOptions& options, std::ostream& out);

/// Whether `path` is a flight record or a folder of them, and not a training run.
[[nodiscard]] bool has_flight_records(const std::filesystem::path& path);

/// Prints the flight records at `path`: where each rank was, in which call ranks differ, and the
/// last calls of each. Returns 1 if no record could be read. Throws FileError.
int run_flight_report(const std::filesystem::path& path, std::ostream& out);

/// Adds `report` to `app`; its outcome goes to `exit_code`.
void setup_report(CLI::App& app, int& exit_code);

// `accelerate setup`: tells the Debian packages which LibTorch to use.

struct SetupOptions {
  std::optional<std::filesystem::path> torch;  ///< A LibTorch, or a Python environment with one.
  std::filesystem::path link;                  ///< libtorch_link(), which the command writes.
};

/// Lets the link lead to LibTorch, in `torch` or where CMake would find it. Returns the exit code. Throws ConfigError when there is no
/// LibTorch, when it has another minor version than the one this command was built for, and when
/// the link cannot be written; the link is then as it was.
int run_setup(const SetupOptions& options, std::ostream& out);

/// Adds `setup` to `app`; its outcome goes to `exit_code`.
void setup_setup(CLI::App& app, int& exit_code);

// `accelerate test`: trains on the configured set-up to find out whether it works.

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

// `accelerate to-fsdp2`: rewrites a configuration file of FSDP 1 for FSDP 2.

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

// `accelerate tpu-config`, which the original has: refuses, and says why.

/// Adds `tpu-config` to `app`. It throws ConfigError, whatever its arguments are.
void setup_tpu_config(CLI::App& app);

// `accelerate watch`: shows a run in the terminal, while it is under way or afterwards.

struct WatchOptions {
  std::filesystem::path run;  ///< A folder, or a file in it; see RunSource.
  bool once = false;          ///< Whether to print one page, without colours.
  int in = 0;                 ///< Where keys come from.
  int out = 1;                ///< Where the run is shown.
};

/// Shows the run until q or Ctrl-C. If `out` is not a terminal that can be redrawn, writes a line
/// whenever something is new, and a page at the end of the run. Returns the exit code: 128 + the
/// signal's number after SIGTERM or SIGHUP, else 0. Throws what RunSource throws.
int run_watch(const WatchOptions& options);

/// Adds `watch` to `app`; its outcome goes to `exit_code`.
void setup_watch(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
