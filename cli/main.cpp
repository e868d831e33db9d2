// The `accelerate` command. This file alone prints errors and turns them into exit codes:
//   0 done · 1 failed · 2 a flag, file or variable has a value that is not allowed · 126 the
//   program cannot be executed · 127 there is no such program · else that of the first rank that
//   failed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>

#include "accelerate/base/error.h"
#if __has_include("cli/commands/config.h")
#include "cli/commands/config.h"
#endif

namespace accelerate::cli {
namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Hugging Face Accelerate as native C++: one training loop on any number of processes.",
      "accelerate");
  int exit_code = 0;
  app.set_version_flag("--version", std::string("accelerate ") + ACCELERATE_VERSION);
#if __has_include("cli/commands/config.h")
  setup_config(app, exit_code);
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  if (app.get_subcommands().empty()) {
    std::cout << app.help();
    return 1;
  }
  return exit_code;
}

}  // namespace
}  // namespace accelerate::cli

int main(int argc, char** argv) {
  try {
    return accelerate::cli::run(argc, argv);
  } catch (const accelerate::ConfigError& error) {
    std::cerr << "accelerate: " << accelerate::describe(error) << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "accelerate: " << accelerate::describe(error) << "\n";
    return 1;
  }
}
