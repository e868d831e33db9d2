#include "accelerate/transformers/trainer/trainer_core.h"

#include <torch/optim/optimizer.h>

#include <utility>

#include "accelerate/base/file_system.h"
#include "accelerate/base/logger.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/transformers/models/pre_trained_model.h"
#include "accelerate/transformers/trainer/arguments/accelerator_options.h"
#include "accelerate/transformers/trainer/arguments/deepspeed_arguments.h"
#include "accelerate/transformers/trainer/arguments/parse_args.h"

namespace accelerate::detail {
namespace {

// Fills in what the launcher decides, and logs at the level that the arguments say. Warnings need
// the group of ranks, which `accelerator` has joined.
ResolvedArguments launched(ResolvedArguments args, Accelerator& accelerator) {
  if (const auto file = deepspeed_file_of(args))
    require_match(*file, args, accelerator.num_processes());
  args.gradient_accumulation_steps = accumulation_steps(args);
  args.max_grad_norm = gradient_norm_limit(args);
  accelerator.set_gradient_accumulation_steps(1);  // TrainingLoop::micro_step says why.
  const bool is_leading =
      args.log_on_each_node ? accelerator.is_local_main_process() : accelerator.is_main_process();
  const Verbosity verbosity = is_leading ? args.log_level : args.log_level_replica;
  if (verbosity != Verbosity::passive) set_log_level(parse_log_level(to_string(verbosity)));
  return args;
}

LoaderRecipe recipe_of(const TrainerCore& core) {
  return {.args = core.args,
          .model = core.trained.model(),
          .processing_class = core.options.processing_class,
          .data_collator = core.options.data_collator,
          .train_batch_size = core.args.per_device_train_batch_size,
          .world_size = core.accelerator.num_processes(),
          .accumulation = core.args.gradient_accumulation_steps.value_or(1)};
}

}  // namespace

TrainerCore::TrainerCore(TrainerOptions given) : TrainerCore(given, asked_of(given.args)) {}

TrainerCore::TrainerCore(TrainerOptions given, const Asked& asked)
    : options(std::move(given)),
      accelerator(asked.accelerator),
      args(launched(asked.args, accelerator)),
      trained(options, args, accelerator),
      recipe(recipe_of(*this)),
      record(args, accelerator, trained) {}

TrainerCore::Asked TrainerCore::asked_of(const TrainingArguments& given) {
  const auto args = resolved(given);
  set_seed(args.seed, {.deterministic = args.full_determinism});  // Before model_init makes a head.
  auto options = accelerator_options(args);
  // The loop decides when schedules make a step, and by how much.
  options.scheduler_step = SchedulerStep::once;
  options.project_dir = args.output_dir;
  options.project_config.logging_dir = std::filesystem::path(args.output_dir) / "runs";
  options.project_config.save_on_each_node = args.save_on_each_node;
  for (const auto& name : args.report_to.texts()) options.log_with.emplace_back(name);
  return {args, std::move(options)};
}

void write_model_files(const TrainerCore& core, const std::filesystem::path& folder) {
  if (const auto* model = core.trained.model().pretrained()) model->save_config(folder);
  if (core.options.processing_class) core.options.processing_class->save_pretrained(folder);
  write_file_atomically(real_file_system(), folder / "training_args.json",
                        write_json(to_node(core.args)));
}

}  // namespace accelerate::detail
