// Built instead of hub.cpp where hub/ is not built.
#include "accelerate/base/error.h"
#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
namespace accelerate::cli {

void setup_hub(CLI::App& app, int&) {
  auto* hub = app.add_subcommand("hub", "Not in this build");
  hub->allow_extras();
  hub->callback([] {
    throw ConfigError(
        "`accelerate hub` is not in this build. Build with -DACCELERATE_BUILD_TOKENIZERS=ON");
  });
}

}  // namespace accelerate::cli
