#include "accelerate/optim/accelerated_scheduler.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/comm/operations.h"

namespace accelerate {
namespace {

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Returns this rank's metric if all ranks have the same, else the mean. [collective]
double agreed_metric(Communicator& communicator, double mine) {
  if (communicator.size() == 1) return mine;
  const at::Tensor all = gather(communicator, at::full({1}, mine, at::kDouble));
  const double* values = all.const_data_ptr<double>();
  if (std::all_of(values, values + all.numel(), [&](double one) { return same(one, mine); })) {
    return mine;
  }
  get_logger("accelerate.optim")
      .warning_once(
          "the ranks stepped a schedule with different metrics; their mean is used. Gather or "
          "reduce the metric before scheduler.step(metric) to decide yourself");
  return all.mean().item<double>();
}

void say_how_steps_count(int ranks) {
  const std::string times = std::to_string(ranks);
  get_logger("accelerate.optim")
      .warning_once("each scheduler.step() takes the schedule " + times +
                    " steps on, one for every process, as Python Accelerate does: right when "
                    "num_training_steps counts batches of the loader before prepare(). If yours "
                    "counts steps of the optimizer, set AcceleratorOptions::scheduler_step to "
                    "SchedulerStep::once; either value ends this warning");
}

const void* address_of(const AcceleratedScheduler::Given& given) {
  return std::visit([](const auto& one) -> const void* { return one.get(); }, given);
}

// Calls `visit` with each live optimizer.
template <typename Visit>
void for_each_live(const PreparedOptimizers& optimizers, Visit visit) {
  for (const auto& weak : optimizers) {
    if (auto core = weak.lock()) visit(AcceleratedOptimizer(std::move(core)));
  }
}

std::vector<double> rates_of(const PreparedOptimizers& optimizers) {
  std::vector<double> all;
  for_each_live(optimizers, [&all](const AcceleratedOptimizer& one) {
    const auto rates = detail::group_rates(one.optimizer());
    all.insert(all.end(), rates.begin(), rates.end());
  });
  return all;
}

std::shared_ptr<LRScheduler> as_ours(const AcceleratedScheduler::Given& given,
                                     const SchedulerContext& context) {
  if (address_of(given) == nullptr) {
    throw UsageError("prepare() was given an empty pointer to a schedule");
  }
  if (const auto* ours = std::get_if<0>(&given)) return *ours;
  const auto rates = [optimizers = context.optimizers] { return rates_of(*optimizers); };
  if (const auto* steps = std::get_if<1>(&given)) return detail::adapt(*steps, rates);
  return detail::adapt(std::get<2>(given), rates);
}

}  // namespace

struct AcceleratedScheduler::Core {
  // Returns the steps that are due at a call of step().
  std::int64_t steps_due();
  [[nodiscard]] bool optimizer_skipped() const;
  [[nodiscard]] int ranks_that_count() const;

  const void* given;  // The user's object.
  std::shared_ptr<LRScheduler> scheduler;
  SchedulerContext context;
  std::int64_t waiting = 0;  // Micro-batches since the last step, with adjust_scheduler.
};

int AcceleratedScheduler::Core::ranks_that_count() const {
  const bool once = context.scheduler_step == SchedulerStep::once;
  const bool alone = once || context.split_batches || !context.step_with_optimizer;
  return alone || scheduler->needs_metric() ? 1 : context.communicator->size();
}

std::int64_t AcceleratedScheduler::Core::steps_due() {
  if (!context.step_with_optimizer) return 1;
  const GradientState& state = *context.gradient_state;
  if (!state.sync_gradients) {
    if (state.accumulation.adjust_scheduler) ++waiting;
    return 0;
  }
  const std::int64_t micro_batches = 1 + std::exchange(waiting, 0);
  return optimizer_skipped() ? 0 : micro_batches * ranks_that_count();
}

bool AcceleratedScheduler::Core::optimizer_skipped() const {
  bool any = false;
  std::optional<bool> own;
  for_each_live(*context.optimizers, [&](const AcceleratedOptimizer& one) {
    any = any || one.step_was_skipped();
    if (&one.optimizer() == scheduler->optimizer()) own = one.step_was_skipped();
  });
  return own.value_or(any);
}

AcceleratedScheduler::AcceleratedScheduler(Given scheduler, SchedulerContext context) {
  auto ours = as_ours(scheduler, context);
  core_ = std::make_shared<Core>(Core{address_of(scheduler), std::move(ours), std::move(context)});
  const int ranks = core_->ranks_that_count();
  if (ranks > 1 && !core_->context.scheduler_step) say_how_steps_count(ranks);
}

bool AcceleratedScheduler::is_of(const Given& scheduler) const {
  return core_->given == address_of(scheduler);
}

void AcceleratedScheduler::step() {
  LRScheduler& inner = *core_->scheduler;
  if (inner.needs_metric()) return inner.step();  // Throws a UsageError that says so.
  for (std::int64_t due = core_->steps_due(); due > 0; --due) {
    if (const auto end = inner.total_steps(); end && inner.last_epoch() >= *end) return;
    inner.step();
  }
}

void AcceleratedScheduler::step(double metric) {
  LRScheduler& inner = *core_->scheduler;
  if (!inner.needs_metric()) return inner.step(metric);  // Throws a UsageError that says so.
  if (core_->steps_due() > 0) inner.step(agreed_metric(*core_->context.communicator, metric));
}

std::vector<double> AcceleratedScheduler::get_last_lr() const {
  return core_->scheduler->get_last_lr();
}

std::int64_t AcceleratedScheduler::last_epoch() const {
  return core_->scheduler->last_epoch();
}

SchedulerState AcceleratedScheduler::state_dict() const {
  return core_->scheduler->state_dict();
}

void AcceleratedScheduler::load_state_dict(const SchedulerState& state) {
  core_->scheduler->load_state_dict(state);
}

LRScheduler& AcceleratedScheduler::scheduler() const {
  return *core_->scheduler;
}

}  // namespace accelerate

namespace accelerate::detail {
namespace {

// LibTorch's count of steps is protected, but a derived class may name the member.
struct StepCount : torch::optim::LRScheduler {
  static unsigned& of(torch::optim::LRScheduler& scheduler) {
    return scheduler.*(&StepCount::step_count_);
  }
};

class Adapter : public LRScheduler {
 public:
  explicit Adapter(RatesOf rates) : rates_(std::move(rates)) {}
  [[nodiscard]] std::vector<double> get_last_lr() const override { return rates_(); }

 private:
  std::vector<double> get_lr() override { return rates_(); }

  RatesOf rates_;
};

class StepAdapter final : public Adapter {
 public:
  StepAdapter(std::shared_ptr<torch::optim::LRScheduler> scheduler, RatesOf rates)
      : Adapter(std::move(rates)), scheduler_(std::move(scheduler)) {}

  void step() override {
    scheduler_->step();
    count_step();
  }
  using LRScheduler::step;

 private:
  void visit_state(StateVisitor& field) override {
    std::int64_t count = StepCount::of(*scheduler_);
    visit_progress(field);
    field("libtorch_step_count", count);
    StepCount::of(*scheduler_) = static_cast<unsigned>(count);
  }

  std::shared_ptr<torch::optim::LRScheduler> scheduler_;
};

class PlateauAdapter final : public Adapter {
 public:
  PlateauAdapter(std::shared_ptr<torch::optim::ReduceLROnPlateauScheduler> scheduler, RatesOf rates)
      : Adapter(std::move(rates)), scheduler_(std::move(scheduler)) {}

  [[nodiscard]] bool needs_metric() const override { return true; }
  void step() override {
    throw UsageError(
        "torch::optim::ReduceLROnPlateauScheduler watches a metric and was stepped without one: "
        "call step(metric)");
  }
  void step(double metric) override {
    scheduler_->step(static_cast<float>(metric));
    count_step();
  }

 private:
  void visit_state(StateVisitor& /*field*/) override {
    throw UsageError(
        "torch::optim::ReduceLROnPlateauScheduler does not let its state be read or set: use "
        "accelerate::ReduceLROnPlateau, which takes the same options, to save and resume");
  }

  std::shared_ptr<torch::optim::ReduceLROnPlateauScheduler> scheduler_;
};

}  // namespace

std::shared_ptr<LRScheduler> adapt(std::shared_ptr<torch::optim::LRScheduler> scheduler,
                                   RatesOf rates) {
  return std::make_shared<StepAdapter>(std::move(scheduler), std::move(rates));
}

std::shared_ptr<LRScheduler> adapt(
    std::shared_ptr<torch::optim::ReduceLROnPlateauScheduler> scheduler, RatesOf rates) {
  return std::make_shared<PlateauAdapter>(std::move(scheduler), std::move(rates));
}

}  // namespace accelerate::detail
