// Trains a convolutional network on Fashion-MNIST on as many processes as it is launched on:
//   accelerate launch --num_processes 2 cv_accelerated
// plain.cpp is the same program with LibTorch alone; their difference is the point.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <string>

#include "examples/cv/fashion_mnist.h"
#include "examples/cv/net.h"
#include "examples/cv/options.h"

namespace {

/// The loader's batches: data uint8 {n, 1, 28, 28}, target int64 {n}.
auto images(const Options& options, const char* part) {
  return fashion_mnist::Dataset(options.data, part).map(torch::data::transforms::Stack<>());
}

/// The share of all ranks' `batches` that `model` classifies right. [collective]
template <typename Model, typename Batches>
double accuracy(Model& model, Batches& batches, accelerate::Accelerator& accelerator) {
  const torch::NoGradGuard no_grad;
  model->eval();
  std::int64_t right = 0, all = 0;
  for (auto& batch : batches) {
    auto [guesses, truths] =
        accelerator.gather_for_metrics(std::pair{model(batch.data).argmax(1), batch.target});
    right += guesses.eq(truths).sum().template item<std::int64_t>();
    all += truths.size(0);
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

void run(const Options& options) {
  accelerate::Accelerator accelerator;
  accelerate::set_seed(options.seed);

  Net net;
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(1e-3));
  auto train_images =
      accelerate::make_data_loader(images(options, "train"), {.batch_size = 32, .shuffle = true});
  auto test_images = accelerate::make_data_loader(images(options, "t10k"), {.batch_size = 500});
  auto [model, optimizer, train, test] = accelerator.prepare(net, adam, train_images, test_images);

  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    model->train();
    const auto name = "epoch " + std::to_string(epoch);
    for (auto& batch : accelerate::progress(train, {.description = name})) {
      auto scores = model(batch.data);
      auto loss = torch::cross_entropy_loss(scores, batch.target);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
  }

  const double share = accuracy(model, test, accelerator);
  accelerator.save_model(model, options.output);
  accelerator.print(accuracy_line(share));
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(parse_options(argc, argv)); });
}
