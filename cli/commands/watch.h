// `accelerate watch`: a run in the terminal, while it is under way or afterwards.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>

namespace accelerate::cli {

struct WatchOptions {
  std::filesystem::path run;  ///< A folder, or a file in it; see RunSource.
  bool once = false;          ///< Whether one page is printed, without colours.
  int in = 0;                 ///< Where keys come from.
  int out = 1;                ///< Where it is shown.
};

/// Shows the run until q or Ctrl-C. Where `out` is no terminal that can be redrawn, a line is
/// written whenever something is new, and a page at the run's end. Returns the exit code: 128 and
/// the signal's number after SIGTERM or SIGHUP, else 0. Throws what RunSource does.
int run_watch(const WatchOptions& options);

/// Adds `watch` to `app`; its outcome goes to `exit_code`.
void setup_watch(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
