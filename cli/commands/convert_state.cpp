// Writes a checkpoint of ours for Python: for FSDP of Accelerate, or for DeepSpeed.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/shards/state_for_deepspeed.h"
#include "accelerate/formats/shards/state_for_python.h"
#include "cli/commands/commands.h"

namespace accelerate::cli {
namespace {

constexpr const char* kConvertStateAbout =
    "Write a checkpoint so that FSDP of Python Accelerate, or DeepSpeed, goes on from it";
constexpr const char* kConvertStateFooter = R"(
DIR is a checkpoint of save_state, in shards or not; its checksums are compared first. OUT is a new
folder. load_state of Python Accelerate reads it on any number of ranks: models, optimizers (AdamW,
Adam, SGD, Adagrad, RMSprop), schedules and the loss scaler. --to fsdp is for FSDP 1 and 2 with
SHARDED_STATE_DICT. --to universal is for DeepSpeed with load_universal, under ZeRO 1 to 3. The other way needs no command: load_state here reads Python's folders.)";

}  // namespace

int run_convert_state(const ConvertStateOptions& options, std::ostream& out) {
  if (options.source.empty() || options.output.empty())
    throw ConfigError(std::string(options.source.empty() ? "DIR" : "OUT") +
                      " is empty: name a folder. Is a variable of the shell not set?");
  if (options.to != "fsdp" && options.to != "universal")
    throw ConfigError("--to is '" + options.to + "'; allowed is fsdp or universal." +
                      did_you_mean(options.to, {"fsdp", "universal"}));
  const auto [written, left] = options.to == "fsdp"
                                   ? write_state_for_python(options.source, options.output)
                                   : write_state_for_deepspeed(options.source, options.output);
  for (const auto& name : written) out << (options.output / name).string() << "\n";
  if (!left.empty()) out << "left out: " << join(left, ", ") << "\n";
  return 0;
}

void setup_convert_state(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("convert-state", kConvertStateAbout);
  auto options = std::make_shared<ConvertStateOptions>();
  command->add_option("DIR", options->source, "A checkpoint of save_state")
      ->required()
      ->type_name("");
  command->add_option("OUT", options->output, "Where to write: a new folder")
      ->required()
      ->type_name("");
  command->add_option("--to", options->to, "fsdp, or universal, a checkpoint of DeepSpeed")
      ->capture_default_str()
      ->type_name("");
  command->footer(kConvertStateFooter);
  command->callback([options, &exit_code] { exit_code = run_convert_state(*options, std::cout); });
}

}  // namespace accelerate::cli
