#include "accelerate/optim/schedules/libtorch_schedulers.h"

#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>

#include <utility>

#include "accelerate/base/error.h"

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
