// Trains the network of examples/cv on the ranks it is launched on, and reports on rank 0 how long
// blocks of steps took.
#include "benchmarks/programs/cv_training.h"
#include "benchmarks/programs/measure.h"

namespace {

void run(const bench::TimedBlocks& timed) {
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

  const auto seconds = bench::block_seconds(timed, train);
  const int ranks = accelerator.num_processes();
  if (accelerator.is_main_process()) bench::report({{"block_seconds", seconds}, {"ranks", ranks}});
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_timed_blocks(argc, argv, run);
}
