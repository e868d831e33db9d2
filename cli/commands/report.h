// `accelerate report`: shows a run as one HTML page.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>

namespace accelerate::cli {

struct ReportOptions {
  std::filesystem::path run;  ///< A folder, or a file in it; see RunSource.
  /// If empty: report.html in the run's folder; for a checkpoint, checkpoint-N.html beside it.
  std::filesystem::path output = {};
};

/// Writes the page and says on `out` where. An older page stays readable until the new page is
/// complete. Returns the exit code. Throws what RunSource throws, and FileError when the page
/// cannot be written.
int run_report(const ReportOptions& options, std::ostream& out);

/// Adds `report` to `app`; its outcome goes to `exit_code`.
void setup_report(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
