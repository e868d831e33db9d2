#include "accelerate/transformers/trainer/trainer_core.h"

#include <ATen/ops/tensor.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/comm/objects.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/transformers/trainer/arguments/accelerator_options.h"

namespace accelerate::detail {
namespace {

AcceleratorOptions options_of(const TrainingArguments& args) {
  AcceleratorOptions options = accelerator_options(args);
  // The loop decides when schedules go on, and by how much.
  options.scheduler_step = SchedulerStep::once;
  options.project_dir = args.output_dir;
  options.project_config.logging_dir = std::filesystem::path(args.output_dir) / "runs";
  options.project_config.save_on_each_node = args.save_on_each_node;
  for (const auto& name : args.report_to) options.log_with.emplace_back(name);
  return options;
}

// Whether this rank logs at log_level; other ranks log at log_level_replica.
bool is_leading(const Accelerator& accelerator, const TrainingArguments& args) {
  return args.log_on_each_node ? accelerator.is_local_main_process()
                               : accelerator.is_main_process();
}

void apply_log_level(Verbosity verbosity) {
  if (verbosity != Verbosity::passive) set_log_level(parse_log_level(to_string(verbosity)));
}

TrainableModel model_of(const TrainerOptions& options) {
  if (options.model_init && !options.model.empty())
    throw ConfigError("a Trainer was given model and model_init; leave one of the two out");
  if (!options.model_init && options.model.empty())
    throw ConfigError("a Trainer needs a model, or model_init, which makes one");
  return options.model_init ? options.model_init() : options.model;
}

// Sets the seed before model_init makes a head.
TrainingArguments seeded(TrainingArguments args) {
  set_seed(args.seed, {.deterministic = args.full_determinism});
  return args;
}

}  // namespace

TrainerCore::TrainerCore(TrainerOptions given)
    : options(std::move(given)),
      args(seeded(resolved(options.args))),
      accelerator(options_of(args)),
      model(model_of(options)),
      accumulation(accumulation_steps(args)),
      train_batch_size(args.per_device_train_batch_size) {
  args.gradient_accumulation_steps = accumulation;
  args.max_grad_norm = gradient_norm_limit(args);
  accelerator.set_gradient_accumulation_steps(1);
  apply_log_level(is_leading(accelerator, args) ? args.log_level : args.log_level_replica);
  state.is_local_process_zero = accelerator.is_local_main_process();
  state.is_world_process_zero = accelerator.is_main_process();
}

PreparedModel& TrainerCore::prepared_model() {
  if (!prepared) prepared.emplace(accelerator, model);
  return *prepared;
}

PreparedLoader<Inputs> TrainerCore::prepare(const DataLoader<Inputs>& loader) {
  const std::int64_t padding =
      options.processing_class ? options.processing_class->pad_token_id().value_or(0) : 0;
  return accelerator.prepare_data_loader<Inputs>(
      loader, {.pad_fn = [padding](std::vector<Inputs>& batches) { pad_alike(batches, padding); }});
}

LoaderRecipe TrainerCore::recipe() const {
  return {.args = args,
          .model = model,
          .processing_class = options.processing_class,
          .data_collator = options.data_collator,
          .train_batch_size = train_batch_size,
          .world_size = accelerator.num_processes(),
          .accumulation = accumulation};
}

TrainerEvent TrainerCore::event() {
  return {.args = args,
          .state = state,
          .control = control,
          .accelerator = accelerator,
          .model = model,
          .optimizer = optimizer ? &*optimizer : nullptr,
          .lr_scheduler = lr_scheduler ? &*lr_scheduler : nullptr};
}

LogValues TrainerCore::log(LogValues logs) {
  logs.set("epoch", state.epoch);
  if (args.include_num_input_tokens_seen != CountedTokens::no)
    logs.set("num_input_tokens_seen", static_cast<double>(state.num_input_tokens_seen));
  LogValues kept = logs;
  kept.set("step", static_cast<double>(state.global_step));
  std::ranges::sort(kept, {}, &LogValues::value_type::first);
  state.log_history.push_back(std::move(kept));
  call(&TrainerCallback::on_log, logs);
  return logs;
}

std::vector<double> TrainerCore::sum(const std::vector<double>& mine) {
  if (accelerator.num_processes() == 1) return mine;
  const auto options_of_sum = at::TensorOptions(at::kDouble);
  const at::Tensor all =
      accelerator.reduce(at::tensor(mine, options_of_sum).to(accelerator.device()), ReduceOp::sum);
  const at::Tensor values = all.cpu();
  const auto* first = values.const_data_ptr<double>();
  return {first, first + values.numel()};
}

std::int64_t TrainerCore::least(std::int64_t mine) {
  std::vector<double> all(static_cast<std::size_t>(accelerator.num_processes()), 0.0);
  all[static_cast<std::size_t>(accelerator.process_index())] = static_cast<double>(mine);
  return static_cast<std::int64_t>(std::ranges::min(sum(all)));
}

void TrainerCore::on_main_process(const std::function<void()>& action) {
  std::string obstacle;
  if (accelerator.is_main_process()) {
    try {
      action();
    } catch (const Error& error) {
      obstacle = describe(error);
    }
  }
  obstacle = broadcast_object(accelerator.communicator(), obstacle);
  if (!obstacle.empty()) throw ConfigError(obstacle);
}

void TrainerCore::set_training_mode(bool training) {
  if (!optimizer) return;
  training ? optimizer->train() : optimizer->eval();
}

}  // namespace accelerate::detail
