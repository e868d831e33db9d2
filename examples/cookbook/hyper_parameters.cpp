// Hyper-parameters by flags, or by a file of them, in a loop of your own. Each run is kept under its
// name, so that TensorBoard and runs/NAME/metrics.jsonl compare them.
//   hyper_parameters --learning_rate 0.03 --optimizer sgd
//   hyper_parameters best.yaml --epochs 100
#include <accelerate/accelerate.h>
#include <accelerate/transformers/trainer/arguments/parse_args.h>

#include <memory>

#include "examples/common/spirals.h"
#include "examples/cookbook/rounded.h"

namespace {

struct HyperParameters {
  std::string name = "baseline";
  std::string optimizer = "adam";
  double learning_rate = 1e-2;
  std::int64_t batch_size = 32, epochs = 30;
  bool shuffle = true;
};

template <typename Visit>
void visit_arguments(HyperParameters& mine, Visit&& argument) {
  argument("name", mine.name, "The name under which the run is kept.");
  argument("optimizer", mine.optimizer, "adam or sgd.");
  argument("learning_rate", mine.learning_rate, "The optimizer's rate.");
  argument("batch_size", mine.batch_size, "Samples in a batch of each process.");
  argument("epochs", mine.epochs, "Passes over the samples.");
  argument("shuffle", mine.shuffle, "Whether each epoch has an order of its own.");
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const HyperParameters& mine,
                                                      const spirals::Net& net) {
  using namespace torch::optim;
  if (mine.optimizer == "adam")
    return std::make_unique<Adam>(net->parameters(), AdamOptions(mine.learning_rate));
  if (mine.optimizer == "sgd")
    return std::make_unique<SGD>(net->parameters(), SGDOptions(mine.learning_rate).momentum(0.9));
  throw accelerate::ConfigError("--optimizer " + mine.optimizer + ": allowed are adam and sgd");
}

void run(const HyperParameters& mine) {
  accelerate::Accelerator accelerator(
      {.log_with = {"tensorboard", "jsonl"}, .project_dir = "runs"});
  accelerate::set_seed(42);
  spirals::Net net;
  const auto chosen = optimizer_of(mine, net);
  auto samples = accelerate::make_data_loader(
      spirals::train_samples(), {.batch_size = mine.batch_size, .shuffle = mine.shuffle});
  auto [model, optimizer, batches] = accelerator.prepare(net, *chosen, samples);
  accelerator.init_trackers(mine.name, {{"optimizer", mine.optimizer},
                                        {"learning_rate", mine.learning_rate},
                                        {"batch_size", mine.batch_size}});
  for (std::int64_t epoch = 0; epoch < mine.epochs; ++epoch) {
    auto loss = torch::zeros({}, accelerator.device());
    for (auto& [points, labels] : batches) {
      loss = torch::cross_entropy_loss(model(points), labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
    accelerator.log({{"loss", loss.detach()}}, epoch);
  }
  const auto [points, labels] = spirals::test_samples();
  const double accuracy =
      spirals::share_right(model(points.to(accelerator.device())), labels.to(accelerator.device()));
  accelerator.log({{"accuracy", accuracy}}, mine.epochs);
  accelerator.print(mine.name, "accuracy", rounded(accuracy));
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(accelerate::parse_args<HyperParameters>(argc, argv)); });
}
