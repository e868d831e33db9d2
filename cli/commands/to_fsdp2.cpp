#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "accelerate/base/error.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "cli/commands/shared_options.h"

namespace accelerate::cli {
namespace {

constexpr const char* kToFsdp2About = "Rewrite a configuration file of FSDP 1 for FSDP 2";

// Says what of a strategy FSDP 2 cannot express by one boolean.
std::vector<std::string> losses_of(ShardingStrategy strategy) {
  if (strategy == ShardingStrategy::NO_SHARD)
    return {"NO_SHARD: FSDP 2 always shards; use MULTI_GPU or MULTI_CPU for whole replicas"};
  if (strategy == ShardingStrategy::HYBRID_SHARD ||
      strategy == ShardingStrategy::HYBRID_SHARD_ZERO2)
    return {
        std::string(to_string(strategy)) +
        ": for a native program set ACCELERATE_FSDP_SHARD_GROUP_SIZE to the processes of a group, "
        "which shard together; for a Python program say in parallelism_config how many processes "
        "replicate (dp_replicate_size) and shard (dp_shard_size)"};
  return {};
}

// Returns the strategy that the file names, by either of its two keys.
std::optional<ShardingStrategy> strategy_of(const FullyShardedDataParallelPlugin& fsdp) {
  if (fsdp.sharding_strategy) return fsdp.sharding_strategy;
  if (!fsdp.reshard_after_forward) return std::nullopt;
  const auto* word = std::get_if<ShardingStrategy>(&*fsdp.reshard_after_forward);
  return word == nullptr ? std::nullopt : std::optional(*word);
}

template <typename T>
void leave_out(std::optional<T>& value, const char* key, std::vector<std::string>& notes) {
  if (value) notes.push_back(std::string(key) + " is left out: FSDP 2 does not have it");
  value.reset();
}

void check_files(const ToFsdp2Options& options) {
  if (options.output_file && std::filesystem::is_directory(*options.output_file))
    throw ConfigError("'" + options.output_file->string() +
                      "' is a folder: name a file by --output_file");
  if (!options.overwrite && !options.output_file)
    throw ConfigError(
        "no output file is named. Name it by --output_file, or pass --overwrite to replace " +
        options.config_file.string());
  if (!options.overwrite && std::filesystem::exists(*options.output_file))
    throw ConfigError("'" + options.output_file->string() +
                      "' is there already: name another by --output_file, or pass --overwrite");
}

}  // namespace

std::vector<std::string> convert_to_fsdp2(FullyShardedDataParallelPlugin& fsdp) {
  if (fsdp == FullyShardedDataParallelPlugin())
    return {"there is no fsdp_config: nothing to rewrite"};
  if (fsdp.fsdp_version == 2)
    return {
        "fsdp_version is 2 already: nothing to rewrite. If the other keys are of version 1, set "
        "it to 1 first"};
  std::vector<std::string> notes;
  if (const auto strategy = strategy_of(fsdp)) {
    notes = losses_of(*strategy);
    fsdp.reshard_after_forward = detail::reshards_after_forward(*strategy);
    fsdp.sharding_strategy.reset();
  }
  leave_out(fsdp.backward_prefetch, "fsdp_backward_prefetch", notes);
  leave_out(fsdp.forward_prefetch, "fsdp_forward_prefetch", notes);
  leave_out(fsdp.use_orig_params, "fsdp_use_orig_params", notes);
  leave_out(fsdp.sync_module_states, "fsdp_sync_module_states", notes);
  if (fsdp.state_dict_type == StateDictType::LOCAL_STATE_DICT)
    notes.push_back(
        "fsdp_state_dict_type stays LOCAL_STATE_DICT, which FSDP 2 does not have: choose "
        "SHARDED_STATE_DICT or FULL_STATE_DICT");
  fsdp.fsdp_version = 2;
  return notes;
}

int run_to_fsdp2(const ToFsdp2Options& options, std::ostream& out) {
  check_files(options);
  ClusterConfig config = load_cluster_config(options.config_file);
  const auto notes = convert_to_fsdp2(config.fsdp_config);
  const auto file = options.output_file.value_or(options.config_file);
  save_cluster_config(config, file);
  for (const auto& note : notes) out << "Note: " << note << ".\n";
  out << "written: " << file.string() << "\n";
  return 0;
}

void setup_to_fsdp2(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("to-fsdp2", kToFsdp2About);
  auto options = std::make_shared<ToFsdp2Options>();
  add_config_file(command, options, "The file to rewrite")->required();
  command
      ->add_option_function<std::string>(
          "--output_file,--output-file",
          [options](const std::string& file) {
            if (file.empty())
              throw ConfigError(
                  "--output_file is ''; it must name a file. Is a variable of the shell unset?");
            options->output_file = file;
          },
          "The file to write [with --overwrite: the one that is read]")
      ->type_name("FILE");
  command->add_flag("--overwrite", options->overwrite, "Replace a file that is there");
  command->callback([options, &exit_code] { exit_code = run_to_fsdp2(*options, std::cout); });
}

}  // namespace accelerate::cli
