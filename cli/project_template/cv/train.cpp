// Trains a small convolutional network to tell images apart, on any number of processes. Without
// --data it draws squares, discs and crosses; --data DIR reads files of the form of MNIST.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

namespace {

// images: float32 {n, 1, 28, 28} in [0, 1]; labels: int64 {n}.
using Samples = std::pair<torch::Tensor, torch::Tensor>;

struct Options {
  int epochs = 5;
  std::string data;                      // Folder with train-images-idx3-ubyte and its kin.
  std::filesystem::path output = "run";  // The trained weights.
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--epochs" && i + 1 < argc) {
      options.epochs = std::stoi(argv[++i]);
    } else if (flag == "--data" && i + 1 < argc) {
      options.data = argv[++i];
    } else if (flag == "--output" && i + 1 < argc) {
      options.output = argv[++i];
    } else {
      throw accelerate::ConfigError("'" + flag +
                                    "' is no flag: there are --epochs N, --data DIR, --output DIR");
    }
  }
  return options;
}

// Shapes of random place and size, on a noisy ground.
Samples draw_samples(std::int64_t n) {
  const auto labels = torch::arange(n) % 3;
  const auto rows = torch::arange(28).view({1, 28, 1}),
             columns = torch::arange(28).view({1, 1, 28});
  const auto dy = (rows - torch::randint(9, 19, {n, 1, 1})).abs();
  const auto dx = (columns - torch::randint(9, 19, {n, 1, 1})).abs();
  const auto size = torch::randint(4, 8, {n, 1, 1});
  const auto square = (dy <= size).logical_and(dx <= size);
  const auto disc = dy.square() + dx.square() <= size.square();
  const auto cross = square.logical_and((dy <= 1).logical_or(dx <= 1));
  const auto kind = labels.view({n, 1, 1});
  const auto shape = torch::where(kind == 0, square, torch::where(kind == 1, disc, cross));
  const auto images = 0.7 * shape.to(torch::kFloat) + 0.3 * torch::rand({n, 28, 28});
  return {images.unsqueeze(1), labels};
}

Samples samples_of(const Options& options, bool is_training) {
  if (options.data.empty()) return draw_samples(is_training ? 1536 : 300);
  using torch::data::datasets::MNIST;
  const MNIST set(options.data, is_training ? MNIST::Mode::kTrain : MNIST::Mode::kTest);
  return {set.images(), set.targets()};
}

struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t classes)
      : out(register_module("out", torch::nn::Linear(800, classes))) {}

  // images: float32 {n, 1, 28, 28}. Returns the scores of the classes, float32 {n, classes}.
  torch::Tensor forward(const torch::Tensor& images) {
    auto maps = torch::max_pool2d(torch::relu(first(images)), 2);
    maps = torch::max_pool2d(torch::relu(second(maps)), 2);
    return out(maps.flatten(1));
  }

  torch::nn::Conv2d first = register_module("first", torch::nn::Conv2d(1, 16, 3));
  torch::nn::Conv2d second = register_module("second", torch::nn::Conv2d(16, 32, 3));
  torch::nn::Linear out;
};
TORCH_MODULE(Net);

void train(const Options& options) {
  accelerate::Accelerator accelerator;
  accelerate::set_seed(42);
  const Samples samples = samples_of(options, true);
  Net net(samples.second.max().item<std::int64_t>() + 1);
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(2e-3));
  auto [model, optimizer, batches, tests] = accelerator.prepare(
      net, adamw, accelerate::make_data_loader(samples, {.batch_size = 32, .shuffle = true}),
      accelerate::make_data_loader(samples_of(options, false), {.batch_size = 100}));

  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    net->train();
    for (auto& [images, labels] : batches) {
      accelerator.backward(torch::cross_entropy_loss(model(images), labels));
      optimizer.step();
      optimizer.zero_grad();
    }
    net->eval();
    const torch::NoGradGuard no_gradients;
    double right = 0, all = 0;
    for (auto& [images, labels] : tests) {
      const auto [found, wanted] =
          accelerator.gather_for_metrics(std::pair(model(images).argmax(1), labels));
      right += found.eq(wanted).sum().item<double>();
      all += static_cast<double>(wanted.numel());
    }
    accelerator.print("epoch " + std::to_string(epoch) +
                      ", test accuracy: " + std::to_string(right / all));
  }
  accelerator.save_model(model, options.output / "model");
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(read_options(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
