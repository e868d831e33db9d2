// Records traces of some steps, one file for each rank (traces/profile_0.json, …), and prints a
// table of operators. Open the files in https://ui.perfetto.dev.
#include <accelerate/accelerate.h>

#include "examples/common/spirals.h"

namespace {

void run() {
  accelerate::Accelerator accelerator(
      {.profile = {
           .schedule_option =
               accelerate::ProfileSchedule{.wait = 1, .warmup = 1, .active = 3, .repeat = 1},
           .record_shapes = true,
           .output_trace_dir = "traces"}});
  accelerate::set_seed(42);
  spirals::Net net;
  auto adam = spirals::make_optimizer(net);
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 32, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, adam, samples);

  auto profiler = accelerator.profile();
  for (auto& [points, labels] : batches) {
    auto loss = torch::cross_entropy_loss(model(points), labels);
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    profiler.step();
  }
  profiler.stop();
  accelerator.print(accelerate::to_table(profiler.key_averages(true), {.row_limit = 5}));
  accelerator.print("3 steps recorded");
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("profiler_accelerated", run);
}
