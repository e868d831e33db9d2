#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/watch/run_log/run_source.h"
#include "accelerate/watch/terminal/run_frame.h"

namespace accelerate::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPollInterval{500};
constexpr milliseconds kIdleInterval{5'000};  // Between draws while the log has nothing new.
constexpr const char* kWatchAbout = "Show a training run in the terminal";
constexpr const char* kWatchFooter = R"(
RUN is the output_dir of a training, or a checkpoint-N folder; see `accelerate report --help`.
The page follows the run: progress and time left, current values, curves of the losses and a metric,
where a step's time goes, checkpoints, notes. q or Ctrl-C leaves; the training does not notice.
Where standard output is not a terminal, or TERM is dumb, there is a line whenever something is new.
NO_COLOR takes the colours away; a locale without UTF-8 gets ASCII.)";

double now_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::vector<StyledLine> frame_of(const RunSource& source, TerminalSize size, std::string footer) {
  return run_frame(source.history(), {.name = source.name(),
                                      .columns = size.columns,
                                      .rows = size.rows,
                                      .utf8 = locale_is_utf8(),
                                      .now = now_seconds(),
                                      .footer = std::move(footer)});
}

// Prints one page, without blanks at the ends of lines.
void print_frame(const RunSource& source, int out) {
  std::string text;
  for (const auto& line : frame_of(source, terminal_size(out), "")) {
    text += terminal_bytes(line, TerminalColours::none);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  (void)write_fully(out, text);
}

// --- lines

// Returns when the run ends, or when nobody reads the lines any more.
int follow_in_lines(RunSource& source, int out) {
  while (!source.history().end) {
    if (write_fully(out, run_line(source.history(), source.name()) + "\n") != 0) return 0;
    while (!source.refresh()) std::this_thread::sleep_for(kPollInterval);
  }
  print_frame(source, out);
  return 0;
}

// --- a screen

void draw_run(TerminalScreen& screen, const RunSource& source, TerminalSize size) {
  const TerminalColours colours = terminal_colours();
  std::vector<std::string> lines;
  for (const auto& line : frame_of(source, size, "q leaves"))
    lines.push_back(terminal_bytes(line, colours));
  screen.draw(lines);
}

bool is_leaving_key(int key) {
  constexpr int kControlC = 3, kControlD = 4;
  return key == 'q' || key == 'Q' || key == kControlC || key == kControlD;
}

// Returns the exit code when it is time to leave.
std::optional<int> answer_to(const TerminalScreen::Answer& answer, TerminalScreen& screen) {
  using Kind = TerminalScreen::Answer::Kind;
  constexpr int kControlL = 12, kOfSignals = 128;
  if (answer.kind == Kind::closed) return 0;
  if (answer.kind == Kind::signal) return answer.value == SIGINT ? 0 : kOfSignals + answer.value;
  if (answer.kind == Kind::key && is_leaving_key(answer.value)) return 0;
  if (answer.kind == Kind::key && answer.value == kControlL) screen.redraw();
  return std::nullopt;
}

int show_on_screen(RunSource& source, const WatchOptions& options) {
  TerminalScreen screen(options.in, options.out);
  TerminalSize shown{0, 0};
  std::chrono::steady_clock::time_point drawn;
  for (bool changed = true;; changed = source.refresh()) {
    const TerminalSize size = terminal_size(options.out);
    const auto now = std::chrono::steady_clock::now();
    if (size != std::exchange(shown, size)) screen.redraw();
    if (changed || screen.is_stale() || now - drawn >= kIdleInterval) {
      draw_run(screen, source, size);
      drawn = now;
    }
    if (const auto exit_code = answer_to(screen.wait(kPollInterval), screen)) return *exit_code;
  }
}

}  // namespace

int run_watch(const WatchOptions& options) {
  RunSource source(options.run);
  if (options.once) {
    print_frame(source, options.out);
    return 0;
  }
  return is_redrawable(options.out) ? show_on_screen(source, options)
                                    : follow_in_lines(source, options.out);
}

void setup_watch(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("watch", kWatchAbout);
  auto options = std::make_shared<WatchOptions>();
  command->add_option("RUN", options->run, "What to show")->required()->type_name("");
  command->add_flag("--once", options->once, "Print one page and exit");
  command->footer(kWatchFooter);
  command->callback([options, &exit_code] { exit_code = run_watch(*options); });
}

}  // namespace accelerate::cli
