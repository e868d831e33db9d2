#include "accelerate/transformers/trainer/arguments/accelerator_options.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/deepspeed.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/launch/config/key_table.h"
#include "accelerate/launch/config/launched_settings.h"
#include "accelerate/transformers/trainer/arguments/deepspeed_arguments.h"
#include "accelerate/transformers/trainer/arguments/sections.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate {
namespace {

using Plugin = FullyShardedDataParallelPlugin;

constexpr const char* kAccumulationKey = "gradient_accumulation_steps";

bool asks_for_sharding(const ResolvedArguments& args) {
  return !args.fsdp.empty() || !args.fsdp_config.empty();
}

// --- fsdp_config, the variables and the file -----------------------------------------------------

// Takes from the file what neither code nor a variable sets. The strategy has two keys: if one of
// them is set, the file sets neither.
void take_file(Plugin& plugin, const Plugin& file) {
  const bool has_strategy = plugin.sharding_strategy || plugin.reshard_after_forward ||
                            env("FSDP_SHARDING_STRATEGY") || env("FSDP_RESHARD_AFTER_FORWARD");
  for (const auto& key : detail::fsdp_table().keys) {
    const bool names_strategy =
        key.name == "fsdp_sharding_strategy" || key.name == "fsdp_reshard_after_forward";
    const bool is_said =
        names_strategy ? has_strategy : key.write(plugin) || env(detail::variable_of(key).c_str());
    if (const auto value = is_said ? std::nullopt : key.write(file)) (void)key.read(plugin, *value);
  }
}

// --- The words of `fsdp` -------------------------------------------------------------------------

std::optional<ShardingStrategy> strategy_of_words(const FsdpOption& option) {
  for (const auto& word : option.words()) {
    if (const auto strategy = parse_enum<ShardingStrategy>(word)) return strategy;
  }
  return std::nullopt;
}

int version_in_force(const Plugin& plugin, const Plugin& file) {
  if (plugin.fsdp_version) return *plugin.fsdp_version;
  const auto variable = env_int("FSDP_VERSION");
  return variable ? static_cast<int>(*variable) : file.fsdp_version.value_or(1);
}

std::optional<ShardingStrategy> strategy_in_code(const Plugin& plugin) {
  if (plugin.sharding_strategy) return plugin.sharding_strategy;
  if (!plugin.reshard_after_forward) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&*plugin.reshard_after_forward))
    return *flag ? ShardingStrategy::FULL_SHARD : ShardingStrategy::SHARD_GRAD_OP;
  return std::get<ShardingStrategy>(*plugin.reshard_after_forward);
}

// Version 2 knows two strategies by word; shard_group_size makes its groups.
bool word_as_version_2(ShardingStrategy strategy) {
  using enum ShardingStrategy;
  if (strategy == FULL_SHARD || strategy == SHARD_GRAD_OP) return strategy == FULL_SHARD;
  throw ConfigError("fsdp is '" + lower(to_string(strategy)) +
                    "' with fsdp_version 2; allowed are full_shard and shard_grad_op. Set "
                    "fsdp_version to 1 to use it.");
}

void take_words(Plugin& plugin, const FsdpOption& option, int version) {
  if (option.has("offload") && !plugin.cpu_offload) plugin.cpu_offload = true;
  const auto strategy = strategy_of_words(option);
  if (!strategy) return;
  if (const auto said = strategy_in_code(plugin); said && *said != *strategy)
    throw ConfigError("fsdp is '" + lower(to_string(*strategy)) + "' and fsdp_config says " +
                      std::string(to_string(*said)) +
                      "; both were set in code. Set fsdp to true, or to the same strategy.");
  if (strategy_in_code(plugin)) return;
  if (version == 2) {
    plugin.reshard_after_forward = word_as_version_2(*strategy);
  } else {
    plugin.sharding_strategy = *strategy;
  }
}

// Sets what Transformers takes for granted: layers are units, checkpoints hold whole tensors, and
// rank 0's parameters go to all ranks.
void take_defaults(Plugin& plugin, int version) {
  if (!plugin.auto_wrap_policy && !env("FSDP_AUTO_WRAP_POLICY"))
    plugin.auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  if (!plugin.state_dict_type && !env("FSDP_STATE_DICT_TYPE"))
    plugin.state_dict_type = StateDictType::FULL_STATE_DICT;
  if (version == 1 && !plugin.sync_module_states && !env("FSDP_SYNC_MODULE_STATES"))
    plugin.sync_module_states = true;
}

// Returns an empty plugin when only the launcher asks for sharding, and nothing when nobody asks.
std::optional<Plugin> requested_plugin(const ResolvedArguments& args, const Plugin& file) {
  if (!asks_for_sharding(args)) return use_fsdp() ? std::optional<Plugin>(Plugin{}) : std::nullopt;
  if (use_deepspeed())
    throw ConfigError(
        std::string(args.fsdp.empty() ? "fsdp_config" : "fsdp") +
        " is set, and the launcher asks for DeepSpeed (ACCELERATE_USE_DEEPSPEED); models are "
        "sharded by one of them. Leave it out, or launch without --use_deepspeed.");
  const auto* code = std::get_if<Plugin>(&args.fsdp_config.value());
  Plugin plugin = code != nullptr ? *code : Plugin{};
  const int version = version_in_force(plugin, file);
  take_words(plugin, args.fsdp, version);
  take_file(plugin, file);
  take_defaults(plugin, version);
  return plugin;
}

// --- The rest ------------------------------------------------------------------------------------

MixedPrecision precision_of(const ResolvedArguments& args, const detail::FsdpFile& file) {
  if (args.bf16.value_or(false)) return MixedPrecision::bf16;
  if (args.fp16.value_or(false)) return MixedPrecision::fp16;
  auto said = launched_mixed_precision();
  if (!said) said = file.mixed_precision;
  const bool ruled_out = (said == MixedPrecision::bf16 && args.bf16 == false) ||
                         (said == MixedPrecision::fp16 && args.fp16 == false);
  return ruled_out ? MixedPrecision::no : said.value_or(MixedPrecision::no);
}

// Returns the text of a key as this version writes it, so that "True" and "true" are one.
std::string normalised(const detail::Key<Plugin>& key, const std::string& text) {
  Plugin scratch;
  const auto written =
      key.read(scratch, detail::plain_text(text)) ? key.write(scratch) : std::nullopt;
  return written ? written->text : text;
}

// Says once, before the ranks know one another, which keys of the file of fsdp_config lose to the
// environment.
void tell_of_overruled_keys(const ResolvedArguments& args, const detail::FsdpFile& file) {
  if (env_int("RANK").value_or(0) != 0) return;
  std::vector<std::string> overruled;
  const auto add = [&](const std::string& key, std::string_view here, const std::string& variable) {
    overruled.push_back(key + " " + std::string(here) + " to " + variable + "=" +
                        env(variable.c_str()).value_or(""));
  };
  const bool is_argument = args.bf16.value_or(false) || args.fp16.value_or(false);
  const auto launched = launched_mixed_precision();
  if (file.mixed_precision && launched && launched != file.mixed_precision && !is_argument)
    add("mixed_precision", to_string(*file.mixed_precision), kMixedPrecisionVariable);
  for (const auto& key : detail::fsdp_table().keys) {
    const auto here = key.write(file.plugin);
    const auto there = env(detail::variable_of(key).c_str());
    if (here && there && here->text != normalised(key, *there))
      add(key.name, here->text, detail::variable_of(key));
  }
  if (overruled.empty()) return;
  detail::trainer_logger().warning(
      "the file of fsdp_config loses where the environment says otherwise: " +
      join(overruled, ", ") + ". Unset the variables, or change the launcher's file.");
}

DataLoaderConfiguration loader_configuration(const ResolvedArguments& args) {
  const AcceleratorConfig& config = args.accelerator_config;
  return {.split_batches = config.split_batches,
          .dispatch_batches = config.dispatch_batches,
          .even_batches = config.even_batches,
          .use_seedable_sampler = config.use_seedable_sampler,
          .data_seed = args.data_seed,
          .non_blocking = config.non_blocking};
}

// Recomputed layers need DDP to find each parameter exactly once; other models may leave some out.
// A sharded model has none of these settings. Only settings of the user are passed on for it, so
// that the Accelerator warns of them.
DistributedDataParallelKwargs ddp_kwargs(const ResolvedArguments& args, bool sharded) {
  DistributedDataParallelKwargs kwargs;
  const bool tolerant = !sharded && !args.gradient_checkpointing;
  kwargs.find_unused_parameters = args.ddp_find_unused_parameters.value_or(tolerant);
  kwargs.bucket_cap_mb = args.ddp_bucket_cap_mb.value_or(kwargs.bucket_cap_mb);
  kwargs.broadcast_buffers = args.ddp_broadcast_buffers.value_or(kwargs.broadcast_buffers);
  kwargs.static_graph = args.ddp_static_graph.value_or(kwargs.static_graph);
  return kwargs;
}

}  // namespace

AcceleratorOptions accelerator_options(const ResolvedArguments& args) {
  detail::FsdpFile file;
  if (const auto* path = std::get_if<std::filesystem::path>(&args.fsdp_config.value()))
    file = detail::read_fsdp_file(*path);
  tell_of_overruled_keys(args, file);
  AcceleratorOptions options;
  options.mixed_precision = precision_of(args, file);
  options.cpu = args.use_cpu;
  options.dataloader_config = loader_configuration(args);
  auto& plugin = options.fsdp_plugin = requested_plugin(args, file.plugin);
  if (args.gradient_checkpointing) options.gradient_checkpointing = GradientCheckpointing{};
  if (!args.deepspeed.empty())
    options.deepspeed_plugin = DeepSpeedPlugin{.hf_ds_config = args.deepspeed};
  const auto deepspeed = detail::deepspeed_file_of(args);
  if (deepspeed && deepspeed->integer(kAccumulationKey))  // Its batch sizes are of a whole step.
    options.gradient_accumulation_steps = static_cast<int>(accumulation_steps(args));
  options.ddp = ddp_kwargs(args, plugin || use_deepspeed() || deepspeed);
  if (!asks_for_sharding(args)) plugin = std::nullopt;  // The launcher says all.
  options.init_process_group.timeout = std::chrono::seconds(args.ddp_timeout);
  options.init_process_group.backend = args.ddp_backend;
  return options;
}

std::int64_t accumulation_steps(const TrainingArguments& args) {
  const auto& given = args.gradient_accumulation_steps;
  const auto file = detail::deepspeed_file_of(args);
  // An argument that says another number is refused elsewhere.
  if (const auto said = file ? file->integer(kAccumulationKey) : std::nullopt) return *said;
  const auto launched = launched_accumulation_steps();
  if (given && launched && *launched != *given)
    detail::trainer_logger().warning("gradient_accumulation_steps is " + std::to_string(*given) +
                                     ", and " + kAccumulationVariable + " " +
                                     std::to_string(*launched) +
                                     ": gradient_accumulation_steps counts.");
  return given.value_or(launched.value_or(1));
}

double gradient_norm_limit(const TrainingArguments& args) {
  const auto file = detail::deepspeed_file_of(args);
  // An argument that says another norm is refused elsewhere.
  if (const auto said = file ? file->number("gradient_clipping") : std::nullopt) return *said;
  const auto launched =
      use_deepspeed() ? deepspeed_config_from_env().gradient_clipping : std::nullopt;
  if (!launched || *launched == args.max_grad_norm) return args.max_grad_norm;
  if (args.max_grad_norm == TrainingArguments{}.max_grad_norm) return *launched;
  detail::trainer_logger().warning("max_grad_norm is " + Node::real(args.max_grad_norm).text +
                                   ", and gradient_clipping of the launcher's deepspeed_config " +
                                   Node::real(*launched).text + ": max_grad_norm counts.");
  return args.max_grad_norm;
}

}  // namespace accelerate
