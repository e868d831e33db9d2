#include "accelerate/transformers/trainer/trained_model.h"

#include <ATen/Context.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>

#include "accelerate/base/error.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/transformers/models/pre_trained_model.h"
#include "accelerate/transformers/trainer/arguments/deepspeed_arguments.h"
#include "accelerate/transformers/trainer/create_optimizer.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

std::shared_ptr<ModelCore> prepare_core(Accelerator& accelerator, const TrainableModel& model) {
  if (model.script()) return accelerator.prepare(*model.script()).core();
  auto module = model.module();
  return accelerator.prepare(module).core();
}

TrainableModel model_of(const TrainerOptions& options) {
  if (options.model_init && !options.model.empty())
    throw ConfigError("a Trainer was given model and model_init; leave one of the two out");
  if (!options.model_init && options.model.empty())
    throw ConfigError("a Trainer needs a model, or model_init, which makes one");
  return options.model_init ? options.model_init() : options.model;
}

PreTrainedModel& pretrained_for(const TrainableModel& model, const char* argument) {
  if (auto* pretrained = model.pretrained()) return *pretrained;
  throw ConfigError(std::string(argument) + " is set, and " + model.name() +
                    " is not a model of accelerate/transformers/models: leave it out, or do it in "
                    "the model itself");
}

std::optional<at::ScalarType> evaluation_type(const ResolvedArguments& args) {
  if (args.bf16_full_eval) return at::kBFloat16;
  if (args.fp16_full_eval) return at::kHalf;
  return std::nullopt;
}

}  // namespace

PreparedModel::PreparedModel(Accelerator& accelerator, TrainableModel model)
    : model_(std::move(model)),
      call_(std::make_shared<Callable>(Callable{model_}), prepare_core(accelerator, model_)) {}

TrainedModel::TrainedModel(const TrainerOptions& options, const ResolvedArguments& args,
                           Accelerator& accelerator)
    : options_(options),
      args_(args),
      accelerator_(accelerator),
      deepspeed_(deepspeed_file_of(args)),
      model_(model_of(options)) {
  apply_arguments();
  warn_of_what_the_file_replaces();
}

void TrainedModel::apply_arguments() {
  if (args_.neftune_noise_alpha)
    pretrained_for(model_, "neftune_noise_alpha").set_embedding_noise(*args_.neftune_noise_alpha);
  if (args_.use_cache)
    trainer_logger().warning(
        "use_cache is set and changes nothing: models keep no keys while they train");
  if (args_.tf32) {
    at::globalContext().setAllowTF32CuBLAS(*args_.tf32);
    at::globalContext().setAllowTF32CuDNN(*args_.tf32);
  }
}

PreparedModel& TrainedModel::prepared_model() {
  if (!prepared_) prepared_.emplace(accelerator_, model_);
  return *prepared_;
}

bool TrainedModel::is_sharded() const {
  return prepared_ && prepared_->core()->parallel().parts->is_sharded();
}

void TrainedModel::prepare_optimizer(std::int64_t max_steps) {
  if (deepspeed_) require_match_of_steps(*deepspeed_, max_steps, warmup_steps(args_, max_steps));
  if (!own_optimizer_) {
    own_optimizer_ = make_optimizer();
    (void)prepared_model();
    optimizer_.emplace(accelerator_.prepare(*own_optimizer_));
  }
  lr_scheduler_.reset();
  auto schedule = make_schedule(max_steps);
  lr_scheduler_.emplace(accelerator_.prepare(schedule));
}

std::shared_ptr<torch::optim::Optimizer> TrainedModel::make_optimizer() const {
  if (options_.optimizers.optimizer) return options_.optimizers.optimizer;
  if (!deepspeed_ || !deepspeed_->has("optimizer")) return create_optimizer(model_, args_);
  // As in Transformers, one group: the file's weight decay is for all parameters.
  std::vector<at::Tensor> trained;
  for (const auto& group : {parameter_groups(model_).decayed, parameter_groups(model_).kept})
    for (const auto& parameter : group) trained.push_back(parameter.tensor);
  return std::make_shared<DummyOptim>(
      std::move(trained), DummyOptimOptions{.lr = args_.learning_rate,
                                            .weight_decay = args_.weight_decay,
                                            .betas = {{args_.adam_beta1, args_.adam_beta2}},
                                            .eps = args_.adam_epsilon});
}

DummySchedulerOptions TrainedModel::stand_in_options(std::int64_t max_steps, int ranks) const {
  // A stand-in counts steps of all ranks together.
  return {.total_num_steps = max_steps * ranks, .warmup_num_steps = warmup_steps(args_, max_steps)};
}

std::shared_ptr<LRScheduler> TrainedModel::make_schedule(std::int64_t max_steps) {
  if (options_.optimizers.lr_scheduler) return options_.optimizers.lr_scheduler;
  // The file's optimizer exists now, in place of its stand-in.
  if (!deepspeed_ || !deepspeed_->has("scheduler"))
    return create_scheduler(optimizer_->optimizer(), args_, max_steps);
  const int ranks = args_.accelerator_config.split_batches ? 1 : accelerator_.num_processes();
  return std::make_shared<DummyScheduler>(*own_optimizer_, stand_in_options(max_steps, ranks));
}

std::shared_ptr<LRScheduler> TrainedModel::planned_schedule(torch::optim::Optimizer& optimizer,
                                                            std::int64_t max_steps) const {
  if (!deepspeed_ || !deepspeed_->has("scheduler"))
    return create_scheduler(optimizer, args_, max_steps);
  return DummyScheduler(optimizer, stand_in_options(max_steps, 1)).made_from(*deepspeed_, 1);
}

std::string TrainedModel::optimizer_name() const {
  const auto type = deepspeed_ ? deepspeed_->text("optimizer.type") : std::nullopt;
  return type ? *type : std::string(args_.optim.text());
}

std::string TrainedModel::schedule_name() const {
  const auto type = deepspeed_ ? deepspeed_->text("scheduler.type") : std::nullopt;
  return type.value_or(args_.lr_scheduler_type);
}

void TrainedModel::warn_of_what_the_file_replaces() const {
  if (!deepspeed_) return;
  const TrainingArguments usual;
  const auto warn = [&](const char* section, const char* argument) {
    trainer_logger().warning(std::string(argument) + " has no effect: " + deepspeed_->name() +
                             " has a section " + section + ". Leave one of them out.");
  };
  if (deepspeed_->has("optimizer") && args_.optim != usual.optim) warn("optimizer", "optim");
  if (deepspeed_->has("scheduler") && args_.lr_scheduler_type != usual.lr_scheduler_type)
    warn("scheduler", "lr_scheduler_type");
}

void TrainedModel::remake() {
  prepared_.reset();
  own_optimizer_.reset();
  optimizer_.reset();
  set_seed(args_.seed);
  model_ = options_.model_init();
  apply_arguments();
}

void TrainedModel::set_training_mode(bool training) {
  if (!optimizer_) return;
  training ? optimizer_->train() : optimizer_->eval();
}

void TrainedModel::check_half_weights() {
  (void)prepared_model();
  if (!is_sharded() || !evaluation_type(args_)) return;
  throw ConfigError(
      "bf16_full_eval and fp16_full_eval change the type of whole parameters, and the model is "
      "sharded: use bf16 or fp16, which compute in that type");
}

HalfWeights::HalfWeights(const ResolvedArguments& args, const TrainableModel& model) {
  const auto type = evaluation_type(args);
  if (!type) return;
  const ModuleView view = model.script() ? view_of(*model.script()) : view_of(*model.module());
  const auto halve = [&](const std::vector<NamedTensor>& tensors) {
    for (const auto& [name, tensor] : tensors) {
      if (!tensor.is_floating_point() || tensor.scalar_type() == *type) continue;
      at::Tensor leaf = tensor;
      before_.emplace_back(leaf, leaf.data());
      leaf.set_data(leaf.detach().to(*type));
    }
  };
  halve(view.parameters);
  halve(view.buffers);
}

HalfWeights::~HalfWeights() {
  for (auto& [leaf, data] : before_) leaf.set_data(data);
}

}  // namespace accelerate::detail
