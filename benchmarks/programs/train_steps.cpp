// Trains the network of examples/cv on the ranks it is launched on, and reports on rank 0 how long
// blocks of steps took: single steps of one rank may borrow time from their neighbours, for ranks
// only meet once a step.
#include "benchmarks/programs/cv_training.h"
#include "benchmarks/programs/measure.h"

namespace {

void run(int warm_up_steps, int blocks, int steps_per_block) {
  accelerate::Accelerator accelerator({.cpu = true});
  accelerate::set_seed(42);
  Net net;
  auto adam = bench::adam(net);
  auto images = accelerate::make_data_loader(bench::train_images(),
                                             {.batch_size = bench::kBatchSize, .shuffle = true});
  auto [model, optimizer, loader] = accelerator.prepare(net, adam, images);

  bench::Endless batches(loader);
  auto backward = [&](const torch::Tensor& loss) { accelerator.backward(loss); };
  auto train = [&, &model = model, &optimizer = optimizer](int steps) {
    for (int i = 0; i < steps; ++i) bench::train_step(model, optimizer, batches, backward);
  };

  train(warm_up_steps);
  std::vector<double> seconds;
  for (int i = 0; i < blocks; ++i) {
    seconds.push_back(bench::seconds_of([&] { train(steps_per_block); }));
  }
  const int ranks = accelerator.num_processes();
  if (accelerator.is_main_process()) bench::report({{"block_seconds", seconds}, {"ranks", ranks}});
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) try {
  const auto numbers = bench::numbers(argc, argv, {"WARM_UP_STEPS", "BLOCKS", "STEPS_PER_BLOCK"});
  run(numbers[0], numbers[1], numbers[2]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_train_steps: %s\n", error.what());
  return 1;
}
