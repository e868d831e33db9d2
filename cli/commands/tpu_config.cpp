#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include "accelerate/base/error.h"

namespace accelerate::cli {

void setup_tpu_config(CLI::App& app) {
  auto* command = app.add_subcommand("tpu-config", "Refused: Python alone trains on TPUs");
  command->allow_extras();
  command->callback([] {
    throw ConfigError(
        "`accelerate tpu-config` sets up TPUs of Google's cloud, which LibTorch cannot train on. "
        "Take Python's `accelerate tpu-config`; it reads the same configuration file");
  });
}

}  // namespace accelerate::cli
