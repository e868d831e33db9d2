// `accelerate launch [flags] program [arguments]`.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace accelerate::cli {

/// Adds the command to the list that `accelerate --help` shows. CLI11 does not parse its words:
/// split_arguments splits them, so that the program's own flags stay untouched.
void setup_launch(CLI::App& app);

/// Launches what `words` (without "launch") ask for and returns the exit code. Help goes to `out`,
/// notes and reports to `err`. Throws what split_arguments, merge_settings, make_plan and launch
/// throw.
int run_launch(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);

}  // namespace accelerate::cli
