#include "accelerate/transformers/trainer/loop/training_loop.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isnan.h>

#include <filesystem>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

constexpr std::int64_t kMiddle = 2, kEnd = 4;

// Saves in the middle, and stops at the end.
class VerifyFlow final : public TrainerCallback {
 public:
  explicit VerifyFlow(std::filesystem::path middle) : middle_(std::move(middle)) {}
  void on_step_end(TrainerEvent& event) override {
    if (event.state.global_step == kMiddle) event.accelerator.save_state(middle_);
    if (event.state.global_step == kEnd) event.control.should_training_stop = true;
  }

 private:
  std::filesystem::path middle_;
};

// Restores what the steps change beside the weights, and removes the checkpoints.
class VerifyScope {
 public:
  explicit VerifyScope(TrainerCore& core)
      : core_(core),
        folder_(std::filesystem::path(core.args.output_dir) / ".verify_resume"),
        callbacks_(std::exchange(core.record.callbacks, {})),
        state_(core.record.state) {
    core_.record.callbacks.add(std::make_shared<VerifyFlow>(folder("middle")));
  }
  ~VerifyScope() {
    core_.record.callbacks = std::move(callbacks_);
    restart(0);
    core_.accelerator.wait_for_everyone();
    std::error_code ignored;
    if (core_.accelerator.is_local_main_process()) std::filesystem::remove_all(folder_, ignored);
  }
  VerifyScope(const VerifyScope&) = delete;
  VerifyScope& operator=(const VerifyScope&) = delete;

  void restart(std::int64_t step) {
    core_.record.state = state_;
    core_.record.state.global_step = step;
    core_.record.control = {};
  }
  [[nodiscard]] std::filesystem::path folder(const char* name) const { return folder_ / name; }

 private:
  TrainerCore& core_;
  std::filesystem::path folder_;
  CallbackList callbacks_;
  TrainerState state_;
};

std::vector<at::Tensor> copies_of(const PreparedModel& model) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& part : model.core()->gradient_holders())
    copies.push_back(part.detach().clone());
  return copies;
}

// NaN equals NaN here, since only differences matter.
bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.equal(b) || (a.eq(b) | (a.isnan() & b.isnan())).all().item<bool>();
}

// Returns the first of this rank's parts that differs from `expected`; the number of parts if none
// does.
std::size_t first_difference(const PreparedModel& model, const std::vector<at::Tensor>& expected) {
  const auto parts = model.core()->gradient_holders();
  std::size_t i = 0;
  while (i < parts.size() && is_same(parts[i].detach(), expected.at(i))) ++i;
  return i;
}

}  // namespace

std::string verify_resume(TrainerCore& core, const TrainingPlan& plan,
                          const PreparedLoader<Inputs>& loader) {
  if (plan.updates_per_epoch < kEnd)
    throw ConfigError("verify_resume needs " + std::to_string(kEnd) +
                      " steps in an epoch, and there are " +
                      std::to_string(plan.updates_per_epoch));
  VerifyScope scope(core);
  auto& accelerator = core.accelerator;
  accelerator.save_state(scope.folder("start"));
  int signal = 0;
  const auto run = [&](const Resumed& resumed) {
    TrainingLoop loop(core, plan, loader, nullptr);
    loop.run(resumed);
    signal = loop.stop_signal();
  };
  const auto cut_short = [&] {
    accelerator.load_state(scope.folder("start"));
    return std::string("verify_resume: a signal came before the end of the check");
  };
  run({.steps = plan.epoch(0)});
  if (signal != 0) return cut_short();
  const auto expected = copies_of(core.trained.prepared_model());
  accelerator.load_state(scope.folder("middle"));
  scope.restart(kMiddle);
  run({.updates = kMiddle, .inside = true, .steps = plan.epoch(0)});
  if (signal != 0) return cut_short();
  const std::size_t differs = first_difference(core.trained.prepared_model(), expected);
  const double faults =
      sum_of_ranks(core.accelerator, {differs < expected.size() ? 1.0 : 0.0}).front();
  accelerator.load_state(scope.folder("start"));
  if (faults > 0)
    throw CheckpointError("verify_resume: a training that continues from a checkpoint at step " +
                          std::to_string(kMiddle) + " differs at step " + std::to_string(kEnd) +
                          (differs < expected.size()
                               ? ", first in part " + std::to_string(differs) + " of the parameters"
                               : ", on another rank") +
                          ". Something that decides the steps is not saved: a callback or dataset "
                          "with a state of its own, or kernels whose results do not repeat "
                          "(full_determinism)");
  return "verify_resume: steps " + std::to_string(kMiddle + 1) + " to " + std::to_string(kEnd) +
         " after a checkpoint are bit for bit those of the uncut run";
}

}  // namespace accelerate::detail
