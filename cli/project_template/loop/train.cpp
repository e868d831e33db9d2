// Trains a small network to tell two spirals apart, on any number of processes. Put your own data
// and model in its place; the loop stays.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <utility>

namespace {

// points: float32 {n, 2}; labels: int64 {n}, 0 or 1.
std::pair<torch::Tensor, torch::Tensor> make_samples(std::int64_t n, double shift) {
  const auto place = (torch::arange(n, torch::kDouble) + shift) / static_cast<double>(n);
  const auto labels = torch::arange(n) % 2;
  const auto angle = 7.0 * place + 3.14159265358979 * labels;
  const auto radius = 0.2 + place;
  const auto points = torch::stack({radius * torch::cos(angle), radius * torch::sin(angle)}, 1);
  return {points.to(torch::kFloat32), labels};
}

struct NetImpl : torch::nn::Module {
  // points: float32 {n, 2}. Returns the scores of both classes, float32 {n, 2}.
  torch::Tensor forward(const torch::Tensor& points) {
    return out(torch::tanh(middle(torch::tanh(in(points)))));
  }
  torch::nn::Linear in = register_module("in", torch::nn::Linear(2, 64));
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(64, 64));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(64, 2));
};
TORCH_MODULE(Net);

struct Options {
  int epochs = 60;
  std::filesystem::path output = "run";  // Checkpoints, and the trained weights.
  bool resume = false;                   // Go on from the checkpoint.
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--epochs" && i + 1 < argc) {
      options.epochs = std::stoi(argv[++i]);
    } else if (flag == "--output" && i + 1 < argc) {
      options.output = argv[++i];
    } else if (flag == "--resume") {
      options.resume = true;
    } else {
      throw accelerate::ConfigError("'" + flag +
                                    "' is no flag: there are --epochs N, --output DIR, --resume");
    }
  }
  return options;
}

void train(const Options& options) {
  // Batches are of all processes together, so that a checkpoint can be resumed with another number
  // of processes.
  accelerate::Accelerator accelerator({.dataloader_config = {.split_batches = true}});
  accelerate::set_seed(42);

  Net net;
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(1e-2));
  auto [model, optimizer, batches] = accelerator.prepare(
      net, adamw,
      accelerate::make_data_loader(make_samples(512, 0.0), {.batch_size = 64, .shuffle = true}));
  auto tests =
      accelerator.prepare(accelerate::make_data_loader(make_samples(99, 0.5), {.batch_size = 64}));

  const auto checkpoint = options.output / "checkpoint";
  if (options.resume) accelerator.load_state(checkpoint);

  for (auto epoch = batches.epoch(); epoch < options.epochs; ++epoch) {
    double loss_sum = 0;
    for (auto& [points, labels] : batches) {
      const auto loss = torch::cross_entropy_loss(model(points), labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      loss_sum += loss.item<double>();
    }
    if ((epoch + 1) % 10 != 0 && epoch + 1 != options.epochs) continue;
    // The mean over all processes, each of which has seen a part of the samples.
    const auto mean = accelerator.reduce(
        torch::tensor(loss_sum / static_cast<double>(batches.size())).to(accelerator.device()),
        accelerate::ReduceOp::mean);
    accelerator.print("epoch " + std::to_string(epoch + 1) + ", loss " +
                      std::to_string(mean.item<double>()));
    accelerator.save_state(checkpoint);
  }

  net->eval();
  torch::NoGradGuard no_gradients;
  double right = 0, all = 0;
  for (auto& [points, labels] : tests) {
    const auto [found, wanted] =
        accelerator.gather_for_metrics(std::pair(model(points).argmax(1), labels));
    right += found.eq(wanted).sum().item<double>();
    all += static_cast<double>(wanted.numel());
  }
  accelerator.print("test accuracy: " + std::to_string(right / all));
  accelerator.save_model(model, options.output / "model");
  accelerator.end_training();
}

}  // namespace

// run_main() says an error once, not once a process, and returns the exit code.
int main(int argc, char** argv) {
  return accelerate::run_main([&] { train(read_options(argc, argv)); });
}
