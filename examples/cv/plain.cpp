// Trains a convolutional network on Fashion-MNIST with LibTorch alone: one process, one device.
// accelerated.cpp is the same program for any number of both; their difference is the point.
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <filesystem>

#include "examples/cv/fashion_mnist.h"
#include "examples/cv/net.h"
#include "examples/cv/options.h"

namespace {

/// The loader's batches: data uint8 {n, 1, 28, 28}, target int64 {n}.
auto images(const Options& options, const char* part) {
  return fashion_mnist::Dataset(options.data, part).map(torch::data::transforms::Stack<>());
}

/// The share of `batches` that `model` classifies right.
template <typename Model, typename Batches>
double accuracy(Model& model, Batches& batches, torch::Device device) {
  const torch::NoGradGuard no_grad;
  model->eval();
  std::int64_t right = 0, all = 0;
  for (auto& batch : batches) {
    auto guesses = model(batch.data.to(device)).argmax(1);
    auto truths = batch.target.to(device);
    right += guesses.eq(truths).sum().template item<std::int64_t>();
    all += truths.size(0);
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

void run(const Options& options) {
  torch::manual_seed(options.seed);
  const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);

  Net model;
  model->to(device);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  auto train = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      images(options, "train"), torch::data::DataLoaderOptions(32));
  auto test = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      images(options, "t10k"), torch::data::DataLoaderOptions(500));

  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    model->train();
    std::int64_t step = 0;
    for (auto& batch : *train) {
      auto scores = model(batch.data.to(device));
      auto loss = torch::cross_entropy_loss(scores, batch.target.to(device));
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      if (++step % 500 == 0) {
        std::printf("epoch %ld, step %ld: loss %.3f\n", epoch, step, loss.item<double>());
      }
    }
  }

  const double share = accuracy(model, *test, device);
  std::filesystem::create_directories(options.output);
  torch::save(model, options.output + "/model.pt");
  std::puts(accuracy_line(share).c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  run(parse_options(argc, argv));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "cv_plain: %s\n", error.what());
  return 1;
}
