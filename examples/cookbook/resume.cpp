// A training that may be killed at any moment. Start it again with the same command: it goes on
// from its last checkpoint, and ends with the weights of a run that was never killed.
#include <accelerate/accelerate.h>

#include <filesystem>

#include "examples/common/spirals.h"
#include "examples/cookbook/rounded.h"

namespace {

/// The loop's own variables. A checkpoint keeps them beside weights, optimizer, schedule, loaders
/// and random numbers.
struct Progress {
  std::int64_t step = 0;
  [[nodiscard]] accelerate::StateDict state_dict() const { return {{"step", step}}; }
  void load_state_dict(const accelerate::StateDict& state) {
    step = state.at("step").to<std::int64_t>();
  }
};

void run(const std::filesystem::path& folder) {
  accelerate::Accelerator accelerator(
      {.project_dir = folder,
       .project_config = {.automatic_checkpoint_naming = true, .total_limit = 2}});
  accelerate::set_seed(42);
  spirals::Net net;
  auto adam = spirals::make_optimizer(net);
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 32, .shuffle = true});
  auto cosine = accelerate::get_scheduler("cosine", adam,
                                          {.num_warmup_steps = 0, .num_training_steps = 60 * 16});
  auto [model, optimizer, batches, schedule] = accelerator.prepare(net, adam, samples, cosine);
  Progress progress;
  accelerator.register_for_checkpointing(progress);
  if (exists(folder / "checkpoints") && !is_empty(folder / "checkpoints")) {
    accelerator.load_state();  // The newest.
    accelerator.print("goes on after step", progress.step);
  }

  for (auto epoch = batches.epoch(); epoch < 60; ++epoch) {
    for (auto& [points, labels] : batches) {
      accelerator.backward(torch::cross_entropy_loss(model(points), labels));
      optimizer.step();
      schedule.step();
      optimizer.zero_grad();
      if (++progress.step % 50 == 0) accelerator.save_state();
    }
  }
  const auto [points, labels] = spirals::test_samples();
  accelerator.print(progress.step, "steps, accuracy",
                    rounded(spirals::share_right(model(points.to(accelerator.device())),
                                                 labels.to(accelerator.device()))));
  accelerator.save_model(model, folder / "model");
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(argc > 1 ? argv[1] : "resume_output"); });
}
