#include "accelerate/optim/deepspeed_dummies.h"

#include <torch/optim/adamw.h>

#include <algorithm>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/optim/deepspeed_optimizers.h"
#include "accelerate/optim/schedules/deepspeed_schedules.h"
#include "accelerate/optim/schedules/initial_rates.h"

namespace accelerate {
namespace {

std::optional<std::int64_t> whole(const DeepSpeedFile& file, const std::string& key) {
  return file.integer("scheduler.params." + key);
}

void take_cycle(const DeepSpeedFile& file, DeepSpeedScheduleOptions& options) {
  const auto number = [&](const char* key, double& field) {
    field = file.number(std::string("scheduler.params.") + key).value_or(field);
  };
  number("cycle_min_lr", options.cycle_min_lr);
  number("cycle_max_lr", options.cycle_max_lr);
  number("decay_lr_rate", options.decay_lr_rate);
  number("cycle_min_mom", options.cycle_min_mom);
  number("cycle_max_mom", options.cycle_max_mom);
  number("decay_mom_rate", options.decay_mom_rate);
  options.cycle_first_step_size =
      whole(file, "cycle_first_step_size").value_or(options.cycle_first_step_size);
  options.cycle_second_step_size = whole(file, "cycle_second_step_size");
  options.cycle_first_stair_count = whole(file, "cycle_first_stair_count").value_or(0);
  options.cycle_second_stair_count = whole(file, "cycle_second_stair_count");
  options.decay_step_size = whole(file, "decay_step_size").value_or(0);
  options.cycle_momentum = file.boolean("scheduler.params.cycle_momentum").value_or(true);
}

// `lr`: what "auto" means for warmup_max_lr.
DeepSpeedScheduleOptions schedule_in(const DeepSpeedFile& file, const DummySchedulerOptions& dummy,
                                     double lr, int ranks) {
  const std::string params = "scheduler.params.";
  DeepSpeedScheduleOptions options;
  options.total_num_steps = whole(file, "total_num_steps");
  if (file.is_auto(params + "total_num_steps") && dummy.total_num_steps)
    options.total_num_steps = (*dummy.total_num_steps + ranks - 1) / ranks;
  options.warmup_min_lr = file.number(params + "warmup_min_lr").value_or(0);
  options.warmup_max_lr = file.number(params + "warmup_max_lr");
  if (file.is_auto(params + "warmup_max_lr")) options.warmup_max_lr = lr;
  options.warmup_num_steps = whole(file, "warmup_num_steps").value_or(options.warmup_num_steps);
  if (file.is_auto(params + "warmup_num_steps"))
    options.warmup_num_steps = std::max<std::int64_t>(1, dummy.warmup_num_steps);
  if (lower(file.text(params + "warmup_type").value_or("log")) == "linear")
    options.warmup_type = WarmupType::linear;
  options.warmup_min_ratio = file.number(params + "warmup_min_ratio").value_or(0);
  options.cos_min_ratio = file.number(params + "cos_min_ratio").value_or(options.cos_min_ratio);
  take_cycle(file, options);
  return options;
}

}  // namespace

DummyOptim::DummyOptim(std::vector<at::Tensor> parameters, const DummyOptimOptions& options)
    : DummyOptim(std::vector{torch::optim::OptimizerParamGroup(std::move(parameters))}, options) {}

DummyOptim::DummyOptim(std::vector<torch::optim::OptimizerParamGroup> groups,
                       const DummyOptimOptions& options)
    : Optimizer(std::move(groups), std::make_unique<torch::optim::AdamWOptions>(options.lr)),
      options_(options) {}

at::Tensor DummyOptim::step(LossClosure) {
  throw UsageError(
      "DummyOptim has no steps: it stands for the optimizer of DeepSpeed's file until prepare() "
      "makes it. Step the optimizer that prepare() returns");
}

torch::optim::Optimizer& DummyOptim::made_from(const DeepSpeedFile& file, const FindParameter& find,
                                               bool clips_updates) {
  if (!made_) made_ = detail::optimizer_from(file, param_groups(), options_, {find, clips_updates});
  return *made_;
}

DummyScheduler::DummyScheduler(torch::optim::Optimizer& optimizer, DummySchedulerOptions options)
    : optimizer_(optimizer), options_(options) {}

void DummyScheduler::step() {
  throw UsageError(
      "DummyScheduler has no steps: it stands for the schedule of DeepSpeed's file until prepare() "
      "makes it. Step the schedule that prepare() returns");
}

std::vector<double> DummyScheduler::get_last_lr() const {
  throw UsageError("DummyScheduler has no rates: ask the schedule that prepare() returns");
}

std::shared_ptr<LRScheduler> DummyScheduler::made_from(const DeepSpeedFile& file, int ranks) {
  if (made_) return made_;
  torch::optim::Optimizer* optimizer = &optimizer_;
  // The stand-in's rate counts, even if the file gives its optimizer another.
  double lr = detail::default_rate(optimizer_);
  if (const auto* dummy = dynamic_cast<const DummyOptim*>(optimizer)) {
    lr = dummy->dummy_options().lr;
    optimizer = dummy->made();
  }
  if (optimizer == nullptr)
    throw UsageError(
        "a DummyScheduler was given to prepare() before its DummyOptim: prepare both together, the "
        "DummyOptim first");
  made_ = make_deepspeed_schedule(file.text("scheduler.type").value_or(""), *optimizer,
                                  schedule_in(file, options_, lr, ranks));
  return made_;
}

}  // namespace accelerate
