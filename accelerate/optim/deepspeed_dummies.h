// Stand-ins for the optimizer and the schedule that DeepSpeed's own file describes.
//
//   DummyOptim adamw(net->parameters(), {.lr = 1e-4});
//   DummyScheduler warmup(adamw, {.total_num_steps = 1000, .warmup_num_steps = 100});
//   auto [model, optimizer, scheduler] = accelerator.prepare(net, adamw, warmup);
//
// prepare() makes the real ones. The stand-ins own them, so they must outlive the training. Source:
// utils/deepspeed.py of Hugging Face Accelerate 1.15.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/launch/config/deepspeed_file.h"
#include "accelerate/optim/deepspeed_optimizers.h"
#include "accelerate/optim/lr_scheduler.h"

namespace accelerate {

class DummyOptim final : public torch::optim::Optimizer {
 public:
  explicit DummyOptim(std::vector<at::Tensor> parameters, const DummyOptimOptions& options = {});
  /// Each group becomes a group of the real optimizer, with the file's options for all.
  explicit DummyOptim(std::vector<torch::optim::OptimizerParamGroup> groups,
                      const DummyOptimOptions& options = {});

  /// Throws UsageError: only what prepare() returns has steps.
  at::Tensor step(LossClosure closure = nullptr) override;

  /// Returns the optimizer of the file's section "optimizer"; makes it at the first call. Throws
  /// ConfigError for a type that is not built, and for options that the type does not have. Muon
  /// asks `find` for each parameter, and throws UsageError for one without a place. It gets
  /// `clips_updates`.
  [[nodiscard]] torch::optim::Optimizer& made_from(const DeepSpeedFile& file,
                                                   const FindParameter& find = nullptr,
                                                   bool clips_updates = false);
  /// Returns the real optimizer; null before prepare().
  [[nodiscard]] torch::optim::Optimizer* made() const { return made_.get(); }
  [[nodiscard]] const DummyOptimOptions& dummy_options() const { return options_; }

 private:
  DummyOptimOptions options_;
  std::unique_ptr<torch::optim::Optimizer> made_;
};

/// What the file's "auto" means.
struct DummySchedulerOptions {
  /// Steps of all ranks together, as a schedule that is prepared counts them.
  std::optional<std::int64_t> total_num_steps{};
  std::int64_t warmup_num_steps = 0;  ///< At least 1 is used.
};

class DummyScheduler final : public LRScheduler {
 public:
  /// `optimizer`: a DummyOptim, or an optimizer of the program.
  explicit DummyScheduler(torch::optim::Optimizer& optimizer, DummySchedulerOptions options = {});

  /// Throw UsageError: only what prepare() returns has steps and rates.
  void step() override;
  [[nodiscard]] std::vector<double> get_last_lr() const override;

  /// Returns the schedule of the file's section "scheduler"; makes it at the first call. `ranks`
  /// share total_num_steps. Throws ConfigError as make_deepspeed_schedule(), and UsageError if the
  /// DummyOptim was not prepared.
  [[nodiscard]] std::shared_ptr<LRScheduler> made_from(const DeepSpeedFile& file, int ranks);

 private:
  std::vector<double> get_lr() override { return {}; }

  torch::optim::Optimizer& optimizer_;
  DummySchedulerOptions options_;
  std::shared_ptr<LRScheduler> made_;
};

}  // namespace accelerate
