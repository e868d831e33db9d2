#include "cli/commands/config.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/config/cluster_config.h"
#include "accelerate/launch/hardware.h"

namespace accelerate::cli {
namespace {

ClusterConfig config_for_this_machine(const ConfigDefaultOptions& options) {
  ClusterConfig config;
  config.mixed_precision = options.mixed_precision;
  config.use_cpu = options.num_gpus == 0;
  config.num_processes = std::max(options.num_gpus, 1);
  config.distributed_type = options.num_gpus > 1 ? DistributedType::MULTI_GPU : DistributedType::NO;
  return config;
}

// CLI11 knows no suggestions, so what it did not understand is refused here.
void refuse_unknown_words(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  if (words.empty()) return;
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options())
    known.push_back("--" + option->get_lnames().front());
  for (const CLI::App* inner : command.get_subcommands({})) known.push_back(inner->get_name());
  throw ConfigError("`accelerate " +
                    (command.get_parent()->get_parent() != nullptr
                         ? command.get_parent()->get_name() + " "
                         : "") +
                    command.get_name() + "` does not know '" + words.front() + "'." +
                    did_you_mean(words.front(), known) + " It takes: " + join(known, ", "));
}

// fp8 needs a library this command cannot look for.
MixedPrecision offered_precision(const std::string& text) {
  const auto precision = parse_enum<MixedPrecision>(text);
  if (precision && *precision != MixedPrecision::fp8) return *precision;
  throw ConfigError("--mixed_precision is '" + text + "'; allowed is one of no, fp16, bf16." +
                    did_you_mean(text, {"no", "fp16", "bf16"}));
}

// `-` and `_` are alike in flags.
CLI::Option* add_config_file(CLI::App* command, std::optional<std::filesystem::path>& file,
                             const std::string& what) {
  return command
      ->add_option_function<std::string>(
          "--config_file,--config-file",
          [&file](const std::string& text) { file = named_config_file(text); },
          what +
              " Default: accelerate/default_config.yaml below $HF_HOME, "
              "$XDG_CACHE_HOME/huggingface "
              "or ~/.cache/huggingface.")
      ->type_name("FILE");
}

void setup_default(CLI::App* config, int& exit_code) {
  auto options = std::make_shared<ConfigDefaultOptions>();
  CLI::App* command =
      config->add_subcommand("default", "Write a configuration file for this machine.");
  command->allow_extras();
  add_config_file(command, options->config_file, "The file to write.");
  command
      ->add_option_function<std::string>(
          "--mixed_precision,--mixed-precision",
          [options](const std::string& text) {
            options->mixed_precision = offered_precision(text);
          },
          "Element type of autocast regions.")
      ->type_name("no|fp16|bf16");
  command->callback([command, options, &exit_code] {
    refuse_unknown_words(*command);
    options->num_gpus = gpu_count();
    exit_code = run_config_default(*options, std::cout);
  });
}

void setup_update(CLI::App* config, int& exit_code) {
  auto options = std::make_shared<ConfigUpdateOptions>();
  CLI::App* command =
      config->add_subcommand("update", "Rewrite a configuration file in today's form.");
  command->allow_extras();
  add_config_file(command, options->config_file, "The file to rewrite.");
  command->callback([command, options, &exit_code] {
    refuse_unknown_words(*command);
    exit_code = run_config_update(*options, std::cout);
  });
}

}  // namespace

int run_config_default(const ConfigDefaultOptions& options, std::ostream& out) {
  const auto file = options.config_file.value_or(default_config_file());
  if (std::filesystem::exists(std::filesystem::symlink_status(file))) {
    out << "There is already a configuration at " << file.string()
        << ", which is left as it is. Edit or remove it, or name another file with "
           "--config_file.\n";
    return 0;
  }
  save_cluster_config(config_for_this_machine(options), file);
  out << "accelerate configuration saved at " << file.string() << "\n";
  return 0;
}

int run_config_update(const ConfigUpdateOptions& options, std::ostream& out) {
  const auto file = options.config_file.value_or(default_config_file());
  save_cluster_config(load_cluster_config(file), file);
  out << "Successfully updated the configuration file at " << file.string() << ".\n";
  return 0;
}

int run_config(std::ostream& out) {
  out << "Tell `accelerate config` what to do:\n"
         "  accelerate config default   writes a configuration for this machine to\n"
         "                              "
      << default_config_file().string()
      << "\n"
         "  accelerate config update    rewrites a configuration in today's form\n"
         "Both take --config_file. docs/config_keys.md explains the keys for writing one by "
         "hand.\n";
  return 1;
}

void setup_config(CLI::App& app, int& exit_code) {
  CLI::App* config = app.add_subcommand("config", "Write or update a configuration file.");
  config->require_subcommand(0, 1);
  config->allow_extras();
  config->callback([config, &exit_code] {
    refuse_unknown_words(*config);
    if (config->get_subcommands().empty()) exit_code = run_config(std::cerr);
  });
  setup_default(config, exit_code);
  setup_update(config, exit_code);
}

}  // namespace accelerate::cli
