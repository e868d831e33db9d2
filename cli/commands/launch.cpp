#include "cli/commands/commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "accelerate/base/logger.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/launch/flags.h"
#include "accelerate/launch/protocol.h"
#include "accelerate/launch/supervisor.h"
#include "cli/reference/command_text.h"
#include "cli/torch_program/torch_program.h"

namespace accelerate::cli {
namespace {

constexpr const char* kLaunchAbout =
    "Start a program once a rank, on the GPUs or the CPU of this machine";

constexpr const char* kMore = R"(
  accelerate launch --num_processes 2 ./train --epochs 3
  accelerate launch --config_file fsdp.yaml train.py

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
  events.interrupted = [&](int signal) {
    err << note(signal_name(signal) + " goes to " + std::to_string(plan.ranks.size()) +
                (plan.ranks.size() == 1 ? " rank, which has up to " : " ranks, which have up to ") +
                grace(plan) + (signal == SIGINT ? " to end; Ctrl-C again kills them" : " to end"))
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
  const auto settings = merge_settings(read_request(std::move(arguments.flags)), this_machine());
  const LaunchPlan plan = make_plan(settings, arguments.program);
  for (const auto& warning : plan.warnings) err << note(warning);
  if (const auto problem = problem_with_torch(); !problem.empty()) err << note(problem);
  tell_notes(settings, err);
  err.flush();
  const LaunchResult result = launch(plan, quiet ? LaunchEvents{} : events_to(err, plan));
  if (!quiet) err << describe_others(result);
  return result.exit_code();
}

}  // namespace accelerate::cli
