#include "accelerate/accelerator/resolved_settings.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/deepspeed.h"
#include "accelerate/launch/config/launched_settings.h"
#include "accelerate/optim/deepspeed_dummies.h"

namespace accelerate::detail {
namespace {

// Throws ConfigError for settings of the program that contradict one another.
GradientAccumulationPlugin program_accumulation(const AcceleratorOptions& options) {
  auto plugin = options.gradient_accumulation_plugin.value_or(
      GradientAccumulationPlugin{.num_steps = options.gradient_accumulation_steps});
  if (options.gradient_accumulation_plugin && options.gradient_accumulation_steps != 1) {
    throw ConfigError(
        "gradient_accumulation_steps (" + std::to_string(options.gradient_accumulation_steps) +
        ") and gradient_accumulation_plugin (num_steps " + std::to_string(plugin.num_steps) +
        ") were both given; allowed is one of them: set num_steps in the plugin");
  }
  if (plugin.num_steps < 1) {
    throw ConfigError("the number of gradient accumulation steps is " +
                      std::to_string(plugin.num_steps) + "; allowed is 1 or more");
  }
  return plugin;
}

// Returns DeepSpeed's file if it has the section.
const DeepSpeedFile* file_with(const std::string& section,
                               const std::optional<ResolvedDeepSpeed>& deepspeed) {
  const bool has = deepspeed && deepspeed->file && deepspeed->file->has(section);
  return has ? &*deepspeed->file : nullptr;
}

using NamedPlugins = std::vector<std::pair<std::string, DeepSpeedPlugin>>;

// Returns the plugins that the program gives.
NamedPlugins plugins_of(const AcceleratorOptions& options) {
  if (options.deepspeed_plugin && !options.deepspeed_plugins.empty())
    throw ConfigError("deepspeed_plugin and deepspeed_plugins were both given; leave one out");
  if (options.deepspeed_plugin) return {{"", *options.deepspeed_plugin}};
  for (auto it = options.deepspeed_plugins.begin(); it != options.deepspeed_plugins.end(); ++it) {
    const auto has_its_name = [&](const auto& other) { return other.first == it->first; };
    if (it->first.empty() || std::any_of(options.deepspeed_plugins.begin(), it, has_its_name))
      throw ConfigError("deepspeed_plugins has '" + it->first +
                        "' as a name; allowed are different names that are not empty");
  }
  return options.deepspeed_plugins;
}

// An Accelerator has one precision and one loss scaler.
void require_same_numbers(const NamedDeepSpeed& first, const NamedDeepSpeed& other) {
  const auto both = "deepspeed_plugins '" + first.name + "' and '" + other.name + "' ";
  if (first.settings.mixed_precision != other.settings.mixed_precision)
    throw ConfigError(both + "ask for mixed precision " +
                      std::string(to_string(first.settings.mixed_precision)) + " and " +
                      std::string(to_string(other.settings.mixed_precision)) +
                      "; an Accelerator has one. Use the same in both files.");
  if (first.settings.loss_scaling != other.settings.loss_scaling)
    throw ConfigError(both +
                      "have different sections fp16; an Accelerator has one loss scaler. Use the "
                      "same section in both files.");
}

// Whether DeepSpeed clips what Muon makes of gradients. At stage 0 gradients are clipped first, as
// by the BF16_Optimizer, which stage 1 has with fp32 gradients.
bool clips_updates(const ResolvedDeepSpeed& deepspeed) {
  if (deepspeed.sharding.sharding_strategy == ShardingStrategy::NO_SHARD) return false;
  const DeepSpeedFile& file = *deepspeed.file;
  const bool is_offloaded =
      file.text("zero_optimization.offload_optimizer.device").value_or("none") != "none";
  return is_offloaded || deepspeed.mixed_precision != MixedPrecision::bf16 ||
         file.integer("zero_optimization.stage") != 1 ||
         file.text("data_types.grad_accum_dtype") != "fp32";
}

[[noreturn]] void refuse_dummy(const std::string& dummy, const std::string& section) {
  throw ConfigError("a " + dummy + " stands for the section " + section +
                    " of DeepSpeed's file, and there is none. Write the section into the file, or "
                    "prepare the program's own " +
                    section + ".");
}

[[noreturn]] void refuse_second(const DeepSpeedFile& file, const std::string& section,
                                const std::string& dummy) {
  throw ConfigError(file.place_of(section) + ": the file has the section " + section +
                    ", and the program prepares its own " + section +
                    "; one of them must go. Remove the section from the file, or prepare a " +
                    dummy + ", which stands for it.");
}

}  // namespace

MixedPrecision precision_of(const AcceleratorOptions& options) {
  if (options.mixed_precision) return *options.mixed_precision;
  return launched_mixed_precision().value_or(MixedPrecision::no);
}

std::vector<NamedDeepSpeed> deepspeeds_of(const AcceleratorOptions& options, int ranks) {
  auto given = plugins_of(options);
  if (!given.empty() && (options.fsdp_plugin || use_fsdp()))
    throw ConfigError(
        "deepspeed_plugin is given, and " +
        std::string(options.fsdp_plugin ? "fsdp_plugin is too" : "the launcher asks for FSDP") +
        "; models are sharded by one of them. Leave one out.");
  if (given.empty() && !options.fsdp_plugin && !use_fsdp() && use_deepspeed())
    given.emplace_back("", DeepSpeedPlugin{});
  std::optional<MixedPrecision> said = launched_mixed_precision();
  if (options.mixed_precision) said = *options.mixed_precision;
  std::vector<NamedDeepSpeed> resolved;
  for (const auto& [name, plugin] : given) {
    const DeepSpeedProgram program{
        .mixed_precision = said,
        .gradient_accumulation_steps = program_accumulation(options).num_steps,
        .num_processes = ranks};
    try {
      resolved.push_back({name, plugin, resolve_deepspeed(plugin, program)});
    } catch (const ConfigError&) {
      if (name.empty()) throw;
      throw_with_context<ConfigError>("of deepspeed_plugins, '" + name + "' is refused");
    }
    require_same_numbers(resolved.front(), resolved.back());
  }
  return resolved;
}

GradientAccumulationPlugin accumulation_of(const AcceleratorOptions& options,
                                           const std::optional<ResolvedDeepSpeed>& deepspeed) {
  auto plugin = program_accumulation(options);
  const auto steps =
      deepspeed ? deepspeed->gradient_accumulation_steps : launched_accumulation_steps();
  if (!steps) return plugin;
  const int given = std::exchange(plugin.num_steps, *steps);
  if (given != 1 && given != plugin.num_steps) {
    const bool is_variable = env(kAccumulationVariable).has_value();
    const std::string who = is_variable ? std::string(kAccumulationVariable)
                                        : "gradient_accumulation_steps of DeepSpeed's settings";
    get_logger("accelerate")
        .warning(who + " is " + std::to_string(plugin.num_steps) +
                 ", and the program's gradient_accumulation_steps " + std::to_string(given) + ": " +
                 (is_variable ? "the variable counts. Unset it, or gradient_accumulation_steps of "
                                "the launcher's deepspeed_config, to train with the program's."
                              : "DeepSpeed's settings count. Write \"auto\" in its file to train "
                                "with the program's."));
  }
  return plugin;
}

std::optional<ResolvedFsdpOptions> sharding_of(const AcceleratorOptions& options,
                                               const std::optional<ResolvedDeepSpeed>& deepspeed,
                                               MixedPrecision precision) {
  if (deepspeed) return deepspeed->sharding;
  if (!options.fsdp_plugin && !use_fsdp()) return std::nullopt;
  return resolve(options.fsdp_plugin.value_or(FullyShardedDataParallelPlugin{}), precision);
}

GradScalerKwargs scaling_of(const GradScalerKwargs& program,
                            const std::optional<ResolvedDeepSpeed>& deepspeed) {
  if (!deepspeed || !deepspeed->loss_scaling || program != GradScalerKwargs{}) return program;
  const LossScaling& file = *deepspeed->loss_scaling;
  const bool is_fixed = file.loss_scale != 0;
  const double first = is_fixed ? file.loss_scale : std::ldexp(1.0, file.initial_scale_power);
  return {.init_scale = is_fixed ? first : std::max(first, file.min_loss_scale),
          .growth_interval = file.window,
          .dynamic = !is_fixed,
          .min_scale = is_fixed ? 0 : file.min_loss_scale,
          .hysteresis = file.hysteresis,
          .consecutive_hysteresis = file.consecutive_hysteresis,
          .growth_delay = 1};
}

torch::optim::Optimizer& real_optimizer(torch::optim::Optimizer& given,
                                        const std::optional<ResolvedDeepSpeed>& deepspeed,
                                        const FindParameter& find) {
  auto* dummy = dynamic_cast<DummyOptim*>(&given);
  const DeepSpeedFile* file = file_with("optimizer", deepspeed);
  if (dummy != nullptr && file == nullptr) refuse_dummy("DummyOptim", "optimizer");
  if (dummy == nullptr && file != nullptr) refuse_second(*file, "optimizer", "DummyOptim");
  return dummy == nullptr ? given : dummy->made_from(*file, find, clips_updates(*deepspeed));
}

std::shared_ptr<LRScheduler> real_schedule(const AcceleratedScheduler::Given& given,
                                           const std::optional<ResolvedDeepSpeed>& deepspeed,
                                           int ranks) {
  const auto* ours = std::get_if<std::shared_ptr<LRScheduler>>(&given);
  LRScheduler* schedule = ours == nullptr ? nullptr : ours->get();
  auto* dummy = dynamic_cast<DummyScheduler*>(schedule);
  const DeepSpeedFile* file = file_with("scheduler", deepspeed);
  if (dummy != nullptr && file == nullptr) refuse_dummy("DummyScheduler", "scheduler");
  if (dummy == nullptr && file != nullptr) refuse_second(*file, "scheduler", "DummyScheduler");
  const bool has_stand_in = file_with("optimizer", deepspeed) != nullptr;
  if (has_stand_in && dummy == nullptr && schedule != nullptr &&
      dynamic_cast<const DummyOptim*>(schedule->optimizer()) != nullptr)
    throw ConfigError(
        "a schedule of the program was made for a DummyOptim, whose rates count for nothing. Only "
        "a "
        "DummyScheduler goes with it: write a section scheduler into DeepSpeed's file");
  return dummy == nullptr ? nullptr : dummy->made_from(*file, ranks);
}

void compare_batch(std::int64_t samples, const std::optional<ResolvedDeepSpeed>& deepspeed) {
  if (!deepspeed || !deepspeed->micro_batch_size) return;
  const std::int64_t said = *deepspeed->micro_batch_size;
  if (samples == 0 || samples == said) return;
  get_logger("accelerate.deepspeed")
      .warning("the first prepared loader gives each rank " + std::to_string(samples) +
               " samples in a batch, and " + deepspeed->file->name() + " says " +
               std::to_string(said) +
               " (train_micro_batch_size_per_gpu, or what train_batch_size leaves for it): the "
               "loader's batches count. Change the file, or write \"auto\" there.");
}

void warn_of_what_has_no_effect(const AcceleratorOptions& options, bool sharded) {
  const Logger log = get_logger("accelerate");
  if (const auto names = given_keywords(options.ddp); sharded && !names.empty()) {
    log.warning(join(names, ", ") + " of DistributedDataParallelKwargs " +
                (names.size() == 1 ? "has" : "have") +
                " no effect, because models are sharded: set the corresponding options in "
                "FullyShardedDataParallelPlugin.");
  }
  const auto compiler = env("ACCELERATE_DYNAMO_BACKEND").value_or("");
  if (!compiler.empty() && lower(compiler) != "no") {
    log.warning("dynamo_backend is " + compiler +
                ", which has no effect on a native program: LibTorch has no torch.compile.");
  }
}

}  // namespace accelerate::detail
