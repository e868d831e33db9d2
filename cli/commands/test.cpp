#include "cli/commands/commands.h"

#include <fcntl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <memory>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/temporary_folder.h"
#include "accelerate/base/terminal/table.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/protocol.h"
#include "accelerate/launch/supervisor.h"
#include "cli/commands/shared_options.h"
#include "cli/torch_program/torch_program.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

// The names of the checks in their order, for checks that were not reached.
constexpr std::array kChecks = {"start",        "collectives", "data loaders", "training",
                                "accumulation", "checkpoint",  "restart"};

// While it lives, standard output and error go to a file.
class OutputToFile {
 public:
  explicit OutputToFile(const fs::path& file) {
    std::cout << std::flush;
    const Descriptor log(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!log.valid()) throw FileError("write", file, errno);
    for (std::size_t i = 0; i < kOutputs.size(); ++i) {
      kept_[i] = Descriptor(::fcntl(kOutputs[i], F_DUPFD_CLOEXEC, 3));
      ::dup2(log.get(), kOutputs[i]);
    }
  }
  ~OutputToFile() {
    for (std::size_t i = 0; i < kOutputs.size(); ++i) ::dup2(kept_[i].get(), kOutputs[i]);
  }
  OutputToFile(const OutputToFile&) = delete;
  OutputToFile& operator=(const OutputToFile&) = delete;

 private:
  static constexpr std::array kOutputs = {STDOUT_FILENO, STDERR_FILENO};
  std::array<Descriptor, 2> kept_;
};

// Says how a launch failed, for example "rank 1 was killed by SIGSEGV"; "" if it did not.
std::string failure_of(const LaunchResult& result) {
  if (result.failed_rank() == nullptr) return "";
  const RankResult& rank = *result.failed_rank();
  const std::string cause = likely_cause(rank);
  return describe_rank(rank) + (cause.empty() ? "" : ". " + cause);
}

struct Launched {
  int exit_code = 0;
  std::string failure;
  std::optional<int> interrupted_by = {};
  std::vector<std::string> warnings = {};
};

Launched launch_checks(const LaunchOptions& settings, const fs::path& folder, const char* part,
                       const fs::path& log, bool verbose) {
  const LaunchPlan plan =
      make_plan(settings, {torch_program().string(), "self-test", folder.string(), part});
  std::optional<OutputToFile> quiet;
  if (!verbose) quiet.emplace(log);
  const LaunchResult result = launch(plan);
  return {result.exit_code(), failure_of(result), result.interrupted_by, plan.warnings};
}

struct Result {
  std::string outcome, check, found, milliseconds;
};

std::vector<Result> read_results(const fs::path& file) {
  std::vector<Result> results;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto cells = split(line, '\t');
    // If several ranks cannot start, one result is enough.
    const bool is_new = results.empty() || results.back().check != cells[1];
    if (cells.size() == 4 && is_new) results.push_back({cells[0], cells[1], cells[2], cells[3]});
  }
  return results;
}

// Adds the checks without a result. The first of them is the check in which a rank died.
void add_missing(std::vector<Result>& results, std::string failure) {
  for (std::size_t i = results.size(); i < kChecks.size(); ++i) {
    const bool is_told = !failure.empty();
    results.push_back({is_told ? "failed" : "not run", kChecks[i], failure, ""});
    failure.clear();
  }
}

std::string table_of(const std::vector<Result>& results) {
  Table table({{"check"}, {"outcome"}, {"s", Align::right}});
  for (const Result& result : results) {
    const auto milliseconds = parse_double(result.milliseconds);
    std::array<char, 24> seconds{};
    if (milliseconds) std::snprintf(seconds.data(), seconds.size(), "%.2f", *milliseconds / 1000);
    table.add_row({result.check, result.outcome, seconds.data()});
  }
  return table.box(locale_is_utf8());
}

// Describes in a line what is tested.
std::string set_up(const LaunchOptions& settings) {
  std::string text = std::to_string(settings.num_processes) +
                     (settings.num_processes == 1 ? " process" : " processes") +
                     (settings.on_cpu ? " on CPUs" : " on GPUs");
  if (settings.is_on("use_fsdp")) text += ", FSDP " + settings.text("fsdp_version");
  if (settings.is_on("use_deepspeed")) text += ", DeepSpeed " + settings.text("zero_stage");
  if (settings.is_on("use_megatron_lm")) text += ", Megatron-LM";
  const std::string precision = settings.text("mixed_precision");
  return text + ", mixed precision " + (precision.empty() ? "no" : precision);
}

// If GPUs are asked for and there are none, they were not tested.
std::string verdict(const LaunchOptions& settings) {
  if (settings.is_on("multi_gpu") && settings.on_cpu)
    return "Test is a success on CPUs. The configuration asks for GPUs, and there are none here.";
  return "Test is a success! You are ready for your distributed training!";
}

void show_log(const fs::path& log, std::ostream& out) {
  constexpr std::size_t kMost = std::size_t{1} << 22;
  if (real_file_system().status(log).kind != FileKind::file) return;
  const auto text = read_file(real_file_system(), log, kMost);
  if (!trim(text).empty()) out << "\nThe ranks wrote:\n" << text;
}

}  // namespace

int run_test(const TestOptions& options, std::ostream& out) {
  require_torch_program("`accelerate test`");
  std::map<std::string, std::string> flags;
  if (options.config_file) flags["config_file"] = options.config_file->string();
  LaunchRequest request = read_request(std::move(flags));
  if (!request.config) request.flags["num_processes"] = std::to_string(std::max(gpu_count(), 1));
  LaunchOptions settings = merge_settings(request, this_machine());
  if (settings.num_machines > 1) {
    out << "Of " << settings.num_machines << " machines this one is tested, by itself.\n";
    settings.num_machines = 1;
    settings.machine_rank = settings.main_process_port = 0;
    settings.values.erase("main_process_ip");
  }
  const TemporaryFolder folder("test");
  const fs::path log = folder.path() / "log";
  out << "Testing " << set_up(settings) << " ...\n" << std::flush;
  Launched launched = launch_checks(settings, folder.path(), "first", log, options.verbose);
  if (launched.exit_code == 0)
    launched = launch_checks(settings, folder.path(), "second", log, options.verbose);
  for (const auto& warning : launched.warnings) out << "accelerate: " << warning << "\n";
  auto results = read_results(folder.path() / "results.tsv");
  const bool is_told = !results.empty() && results.back().outcome == "failed";
  add_missing(results, is_told || launched.interrupted_by ? "" : launched.failure);
  out << table_of(results);
  if (launched.interrupted_by) {
    out << "Interrupted by " << signal_name(*launched.interrupted_by) << ".\n";
    return launched.exit_code;
  }
  if (std::ranges::all_of(results, [](const Result& r) { return r.outcome == "ok"; })) {
    out << verdict(settings) << "\n";
    return 0;
  }
  for (const Result& result : results)
    if (result.outcome == "failed") out << result.check << ": " << result.found << "\n";
  if (!options.verbose) show_log(log, out);
  return launched.exit_code == 0 ? 1 : launched.exit_code;
}

void setup_test(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("test", "Train on the configured set-up, to see if it works");
  auto options = std::make_shared<TestOptions>();
  add_config_file(command, options, "Configuration file to test; the default one otherwise");
  command->add_flag("--verbose", options->verbose, "Show what the processes write");
  command->callback([options, &exit_code] { exit_code = run_test(*options, std::cout); });
}

}  // namespace accelerate::cli
