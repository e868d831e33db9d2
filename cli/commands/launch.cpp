#include "cli/commands/commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>

#include "accelerate/base/file_error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/flags.h"
#include "accelerate/launch/machines/machine_group.h"
#include "accelerate/launch/machines/mpirun.h"
#include "accelerate/launch/machines/remote.h"
#include "accelerate/launch/output/run_folder.h"
#include "accelerate/launch/program.h"
#include "accelerate/launch/protocol.h"
#include "accelerate/launch/supervisor.h"
#include "cli/reference/command_text.h"
#include "cli/torch_program/torch_program.h"

namespace accelerate::cli {
namespace {

constexpr const char* kLaunchAbout =
    "Start a program once a rank, on the GPUs or the CPUs of one machine or of several";

constexpr const char* kMore = R"(
  accelerate launch --num_processes 2 ./train --epochs 3
  accelerate launch --config_file fsdp.yaml train.py
  accelerate launch --num_machines 2 --machine_rank 0
    --main_process_ip 10.0.0.1 --num_processes 8 ./train

Flags may be written with - or _, as --flag value or --flag=value, and come
before the program. Each overrides the key of the same name in the configuration
file. A program is a path or a name in PATH; a .py file is handed to python3.
[x] is the default.)";

std::string note(const std::string& text) {
  return "accelerate: " + text + "\n";
}

std::string grace(const LaunchPlan& plan) {
  return std::to_string((plan.grace_period.count() + 999) / 1000) + " s";
}

LaunchEvents events_to(std::ostream& err, const LaunchPlan& plan) {
  LaunchEvents events;
  events.rank_failed = [&](const RankResult& rank) {
    const std::string cause = likely_cause(rank);
    err << note(describe_rank(rank) + (cause.empty() ? "" : ". " + cause));
    if (plan.ranks.size() > 1)
      err << "  ending the other ranks, which have up to " << grace(plan) << "\n";
    err.flush();
  };
  events.rank_was_asked = [&](const RankResult& rank) {
    err << note(describe_asked(rank));
    if (plan.ranks.size() > 1) err << "  the other ranks have up to " << grace(plan) << " to end\n";
    err.flush();
  };
  events.interrupted = [&](int signal) {
    err << note(signal_name(signal) + " goes to " + std::to_string(plan.ranks.size()) +
                (plan.ranks.size() == 1 ? " rank, which has up to " : " ranks, which have up to ") +
                grace(plan) + (signal == SIGINT ? " to end; Ctrl-C again kills them" : " to end"))
        << std::flush;
  };
  events.ended_elsewhere = [&](const EndElsewhere& end) {
    err << note(describe_end(end)) << "  ending the ranks here, which have up to " << grace(plan)
        << "\n"
        << std::flush;
  };
  events.killing = [&] { err << note("killing the ranks that still run") << std::flush; };
  return events;
}

// Says where each rank runs: on `err` when debugging, else to the logger.
void tell_notes(const LaunchOptions& settings, std::ostream& err) {
  const Logger logger = get_logger("accelerate.launch");
  for (const auto& line : settings.notes) {
    if (settings.is_on("debug")) {
      err << note(line);
    } else {
      logger.info(line);
    }
  }
}

// Waits for the other machines. What would keep this one from starting is found before.
std::unique_ptr<MachineGroup> meet(const LaunchOptions& settings,
                                   const std::vector<std::string>& program, bool quiet,
                                   std::ostream& err) {
  (void)resolve_program(program, {settings.is_on("module"), settings.is_on("no_python")});
  MachineOptions options = machine_options(settings, program);
  if (!quiet) options.report = [&err](const std::string& text) { err << note(text) << std::flush; };
  return std::make_unique<MachineGroup>(std::move(options));
}

void tell_first(const LaunchOptions& settings, const LaunchPlan& plan, std::ostream& err) {
  for (const auto& warning : plan.warnings) err << note(warning);
  if (const auto problem = problem_with_torch(); !problem.empty()) err << note(problem);
  tell_notes(settings, err);
  err.flush();
}

std::string restart_line(const LaunchOptions& settings, const MachineGroup* machines,
                         int restarts) {
  if (machines == nullptr) {
    return "starting all ranks again: restart " + std::to_string(restarts) + " of " +
           std::to_string(settings.max_restarts);
  }
  const MeetingPoint& meeting = machines->meeting();
  return "starting all ranks again: " +
         count_of(static_cast<std::size_t>(meeting.machines), "machine") + ", " +
         count_of(static_cast<std::size_t>(meeting.ranks_of_all), "rank") +
         ", this one is machine " + std::to_string(meeting.machine);
}

struct Job {
  const LaunchOptions& settings;
  const std::vector<std::string>& program;
  MachineGroup* machines;  // Null on one machine.
  const RunFolder& folder;
  bool quiet;
  std::ostream& err;
};

// Starts all ranks, and again as often as is asked for.
int run_rounds(const Job& job) {
  const std::string place = "what ranks write is in " + detail::quoted_path(job.folder.path());
  const bool has_place = job.folder.is_kept() && !job.quiet;
  for (int restarts = 0;; ++restarts) {
    LaunchPlan plan = make_plan(job.settings, job.program,
                                job.machines ? &job.machines->meeting() : nullptr, restarts);
    plan.output.folder = job.folder.path();
    if (restarts == 0) {
      tell_first(job.settings, plan, job.err);
      if (job.folder.is_kept() && job.settings.output.log_dir.empty())
        job.err << note(place) << std::flush;
    }
    LaunchResult result =
        launch(plan, job.quiet ? LaunchEvents{} : events_to(job.err, plan), job.machines);
    const bool was_told = result.elsewhere.has_value();
    const bool again = job.machines
                           ? job.machines->begin_again(result)
                           : result.failed_rank() != nullptr && !result.was_asked_to_end() &&
                                 restarts < job.settings.max_restarts;
    if (!job.quiet) {
      if (result.elsewhere && !was_told) job.err << note(describe_end(*result.elsewhere));
      job.err << describe_others(result);
      if (again) job.err << note(restart_line(job.settings, job.machines, restarts + 1));
      job.err << std::flush;
    }
    if (again) continue;
    if (has_place && result.first_failure) job.err << "  " << place << "\n";
    return result.exit_code();
  }
}

// Starts the ranks with mpirun, which takes the place of this process.
[[noreturn]] void launch_by_mpirun(const LaunchOptions& settings,
                                   const std::vector<std::string>& program, std::ostream& err) {
  const Command command = mpirun_command(settings, program);
  for (const auto& warning : settings.warnings) err << note(warning);
  std::vector<std::string> words;
  for (const auto& word : command.argv) words.push_back(shell_word(word));
  if (settings.is_on("debug")) err << note(join(words, " "));
  err.flush();
  become(command);
}

// Starts a launcher on each of `hosts`.
int launch_by_ssh(const LaunchRequest& request, const std::vector<Host>& hosts,
                  const std::vector<std::string>& program, std::ostream& err) {
  RemoteJob job = remote_job(request, hosts, program);
  if (!request.flags.contains("quiet"))
    job.report = [&err](const std::string& text) { err << note(text) << std::flush; };
  return run_remote_job(job);
}

}  // namespace

void setup_launch(CLI::App& app) {
  app.add_subcommand("launch", kLaunchAbout)->footer(kMore);
}

int run_launch(const std::vector<std::string>& words, std::ostream& out, std::ostream& err) {
  LaunchArguments arguments = split_arguments(words, launch_flags());
  if (arguments.help) {
    CLI::App app("", own_command());
    setup_launch(app);
    out << help_page(command_text(*app.get_subcommand("launch")), terminal_columns(STDOUT_FILENO));
    return 0;
  }
  const bool quiet = arguments.flags.contains("quiet");
  LaunchRequest request = read_request(std::move(arguments.flags));
  if (!request.says_all_of_machines()) request.scheduler = read_scheduler(process_environment());
  if (const auto hosts = hosts_to_start(request))
    return launch_by_ssh(request, *hosts, arguments.program, err);
  const auto settings = merge_settings(request, this_machine());
  if (settings.by_mpirun) launch_by_mpirun(settings, arguments.program, err);
  if (!quiet && !settings.from_scheduler.empty())
    err << note(settings.from_scheduler) << std::flush;
  prepare_log_dir(settings.output.log_dir);
  std::unique_ptr<MachineGroup> machines;
  if (settings.num_machines > 1) machines = meet(settings, arguments.program, quiet, err);
  const RunFolder folder(settings.output, "none");
  return run_rounds({settings, arguments.program, machines.get(), folder, quiet, err});
}

}  // namespace accelerate::cli
