// Tracking: values are logged to TensorBoard (tensorboard --logdir runs) and to a file of JSON
// lines, by rank 0 alone. For MLflow add its name to log_with.
#include <accelerate/accelerate.h>

#include "examples/common/spirals.h"

namespace {

void run() {
  accelerate::Accelerator accelerator(
      {.log_with = {"tensorboard", "jsonl"}, .project_dir = "runs"});
  accelerate::set_seed(42);
  spirals::Net net;
  auto adam = spirals::make_optimizer(net);
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 32, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, adam, samples);
  accelerator.init_trackers("spirals", {{"lr", 1e-2}, {"batch_size", 32}});

  constexpr int kEpochs = 60;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    auto sum = torch::zeros({}, accelerator.device());
    for (auto& [points, labels] : batches) {
      auto loss = torch::cross_entropy_loss(model(points), labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      sum += loss.detach();
    }
    const auto mean = accelerator.reduce(sum / batches.size(), accelerate::ReduceOp::mean);
    accelerator.log({{"loss", mean}, {"weights", accelerate::Histogram{net->middle->weight}}},
                    epoch);
  }
  const auto [test_points, truths] = spirals::test_samples();
  const double accuracy = spirals::share_right(model(test_points), truths);
  accelerator.log({{"accuracy", accuracy}}, kEpochs);
  accelerator.print(std::to_string(kEpochs) + " epochs logged");
  accelerator.print(spirals::line("test accuracy: %.3f", accuracy));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("tracking_accelerated", run);
}
