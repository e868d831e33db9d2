// `accelerate watch`: shows a run in the terminal, while it is under way or afterwards.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>

namespace accelerate::cli {

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
