#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/watch/page/report_page.h"
#include "accelerate/watch/run_log/run_source.h"

namespace accelerate::cli {
namespace {

constexpr const char* kReportAbout = "Show a training run as one HTML page";
constexpr const char* kReportFooter = R"(
RUN is the output_dir of a training, or a checkpoint-N folder. The page is made from its
run_log.jsonl, else from trainer_state.json, as Python's Trainer writes it too. It has curves of
losses, learning rate, gradients, speed and metrics, where a step's time goes, and tables of
evaluations, checkpoints, arguments and notes. It is one file that needs nothing from the network.
Its times come from the log alone: the same log gives the same page.

RUN may also be a flight record, or a folder of them: what each rank's last collectives were. They
are printed, with the first call in which ranks differ, and no page is written.)";

std::filesystem::path page_path(const ReportOptions& options, const RunSource& source) {
  if (!options.output.empty()) return options.output;
  // A page inside a checkpoint would keep it from being replaced, since it holds more than was
  // saved.
  const auto folder = std::filesystem::absolute(source.folder()).lexically_normal();
  const std::string name = folder.filename().string();
  return name.starts_with("checkpoint-") ? folder.parent_path() / (name + ".html")
                                         : source.folder() / "report.html";
}

}  // namespace

int run_report(const ReportOptions& options, std::ostream& out) {
  if (has_flight_records(options.run)) return run_flight_report(options.run, out);
  const RunSource source(options.run);
  const auto path = page_path(options, source);
  const RunHistory& history = source.history();
  write_file_atomically(real_file_system(), path, report_page(history, source.name()),
                        {.durable = false});
  out << count_of(history.logs.size(), "log") << ", "
      << count_of(history.evaluations.size(), "evaluation") << ", "
      << count_of(history.saves.size(), "checkpoint") << " of " << source.file().string() << "\n  "
      << path.string() << "\n";
  return 0;
}

void setup_report(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("report", kReportAbout);
  auto options = std::make_shared<ReportOptions>();
  command->add_option("RUN", options->run, "What to show")->required()->type_name("");
  command
      ->add_option("-o,--output", options->output,
                   "Where to write [RUN/report.html; of a checkpoint checkpoint-N.html beside it]")
      ->type_name("FILE");
  command->footer(kReportFooter);
  command->callback([options, &exit_code] { exit_code = run_report(*options, std::cout); });
}

}  // namespace accelerate::cli
