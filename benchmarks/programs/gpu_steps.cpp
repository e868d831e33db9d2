// Trains, feeds and saves on a GPU, and reports how long that took. Arguments: what to do, then
// whole numbers. originals/gpu_steps.py does the same in Python.
//
//   transformer WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK   125 million weights, 8 x 1,024 tokens, bf16
//   large       WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK   2.6 billion weights, 4 x 1,024 tokens, bf16
//   small       WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK   1 million weights, 8 x 64 tokens, bf16
//   graphed     WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK   the small one, its step as a CUDA graph
//   feed        EPOCHS WORKERS 0                       60,000 images to the GPU, in batches of 256
//   fed         EPOCHS WORKERS 0                       as feed, and trains a convolutional net;
//                                                      then the same with one batch all along
//   checkpoint  MIB SAVES 0                            tensors of 16 MiB, saved in the background
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/programs/language_model.h"
#include "benchmarks/programs/measure.h"

namespace {

using Numbers = std::vector<int>;

accelerate::Accelerator on_gpu(accelerate::AcceleratorOptions options = {}) {
  if (!torch::cuda::is_available()) throw std::runtime_error("no GPU that this LibTorch can use");
  accelerate::Accelerator accelerator(options);
  if (!accelerator.device().is_cuda()) throw std::runtime_error("the device is no GPU");
  return accelerator;
}

struct Workload {
  bench::ModelSizes sizes;
  std::int64_t rows, tokens;
};
const Workload kTransformer{
    {.vocabulary = 26'112, .width = 768, .heads = 12, .layers = 12, .causal = true}, 8, 1024};
const Workload kLarge{
    {.vocabulary = 32'000, .width = 2560, .heads = 20, .layers = 31, .causal = true}, 4, 1024};
const Workload kSmall{
    {.vocabulary = 1'000, .width = 128, .heads = 4, .layers = 4, .causal = true}, 8, 64};

struct Batch {
  at::Tensor tokens, targets;
};
void visit_tensors(Batch& batch, auto&& fn) {
  fn(batch.tokens);
  fn(batch.targets);
}

void train(const Workload& work, bool graphed, const bench::TimedBlocks& timed) {
  auto accelerator = on_gpu({.mixed_precision = accelerate::MixedPrecision::bf16});
  accelerate::set_seed(42);
  bench::Net net(work.sizes);
  std::int64_t weights = 0;
  for (const auto& parameter : net->parameters()) weights += parameter.numel();
  net->to(accelerator.device());
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(1e-4));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  const auto on_device = torch::TensorOptions().device(accelerator.device()).dtype(torch::kLong);
  const Batch batch{torch::randint(work.sizes.vocabulary, {work.rows, work.tokens}, on_device),
                    torch::randint(work.sizes.vocabulary, {work.rows * work.tokens}, on_device)};
  const auto step = [&, &model = model, &optimizer = optimizer](Batch& given) {
    const auto loss = torch::nn::functional::cross_entropy(
        model(given.tokens).view({-1, work.sizes.vocabulary}), given.targets);
    accelerator.backward(loss);
    accelerator.clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
    return loss.detach();
  };
  accelerate::GraphedStep recorded(accelerator, step);
  const auto loop = [&](int steps) {
    Batch given = batch;
    for (int i = 0; i < steps; ++i) graphed ? (void)recorded(given) : (void)step(given);
    torch::cuda::synchronize();
  };
  const auto seconds = bench::block_seconds(timed, loop);
  if (graphed && !recorded.is_captured()) throw std::runtime_error(recorded.reason());
  Batch last = batch;
  bench::report(
      {{"block_seconds", seconds},
       {"loss", step(last).item<double>()},
       {"weights", weights},
       {"device_peak_mib",
        static_cast<double>(accelerate::device_memory(accelerator.device()).peak_allocated_bytes) /
            (1 << 20)}});
}

constexpr std::int64_t kImages = 60'000;

auto images_for(accelerate::Accelerator& accelerator, int workers) {
  return accelerator.prepare(accelerate::make_data_loader(
      torch::data::Example<>(torch::randint(256, {kImages, 3, 32, 32}, torch::kByte),
                             torch::randint(10, {kImages}, torch::kLong)),
      {.batch_size = 256, .shuffle = true, .num_workers = workers, .pin_memory = true}));
}

void feed(int epochs, int workers) {
  auto accelerator = on_gpu();
  auto loader = images_for(accelerator, workers);
  std::vector<double> seconds;
  for (int i = 0; i < epochs; ++i) {
    seconds.push_back(bench::seconds_of([&] {
      for (auto& batch : loader) (void)batch.data.sum();  // Something that needs the batch.
      torch::cuda::synchronize();
    }));
  }
  bench::report({{"epoch_seconds", seconds}, {"samples", kImages}});
}

torch::nn::Sequential convolutional_net() {
  using torch::nn::Conv2d;
  const auto layer = [](int from, int to, int stride) {
    return Conv2d(torch::nn::Conv2dOptions(from, to, 3).stride(stride).padding(1));
  };
  using Norm = torch::nn::BatchNorm2d;
  return torch::nn::Sequential(layer(3, 64, 1), Norm(64), torch::nn::ReLU(), layer(64, 128, 2),
                               Norm(128), torch::nn::ReLU(), layer(128, 256, 2), Norm(256),
                               torch::nn::ReLU(), torch::nn::AdaptiveAvgPool2d(1),
                               torch::nn::Flatten(), torch::nn::Linear(256, 10));
}

// Trains on what a loader gives and on one batch as often, an epoch of each in turn: another process
// may be a tenth faster or slower with the same work.
void train_on_images(int epochs, int workers) {
  auto accelerator = on_gpu({.mixed_precision = accelerate::MixedPrecision::bf16});
  auto loader = images_for(accelerator, workers);
  auto net = convolutional_net();
  net->to(accelerator.device());
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(1e-4));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  const auto step = [&, &model = model, &optimizer = optimizer](const auto& batch) {
    const auto pixels = batch.data.to(torch::kFloat) / 255;
    accelerator.backward(torch::nn::functional::cross_entropy(model(pixels), batch.target));
    optimizer.step();
    optimizer.zero_grad();
  };
  std::optional<torch::data::Example<>> first;
  const auto fed = [&] {
    for (auto& batch : loader) {
      step(batch);
      if (!first) first = {batch.data, batch.target};
    }
  };
  const auto unfed = [&] {
    for (std::size_t i = 0; i < loader.size(); ++i) step(*first);
  };
  const auto seconds_of = [](auto& epoch) {
    torch::cuda::synchronize();
    return bench::seconds_of([&] {
      epoch();
      torch::cuda::synchronize();
    });
  };
  fed();  // Warms up.
  std::vector<double> fed_seconds, unfed_seconds;
  for (int i = 0; i < epochs; ++i) {
    unfed_seconds.push_back(seconds_of(unfed));
    fed_seconds.push_back(seconds_of(fed));
  }
  bench::report({{"fed_seconds", fed_seconds}, {"unfed_seconds", unfed_seconds}});
}

struct TensorsImpl : torch::nn::Module {
  explicit TensorsImpl(int mebibytes) {
    constexpr int kTensorMiB = 16;
    for (int i = 0; i * kTensorMiB < mebibytes; ++i)
      register_parameter("weight_" + std::to_string(i), at::arange(kTensorMiB << 18, at::kFloat));
  }
  at::Tensor forward(const at::Tensor& x) { return x; }
};
TORCH_MODULE(Tensors);

void checkpoint(int mebibytes, int saves) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("gpu_steps." + std::to_string(bench::wall_clock_ns()));
  std::vector<double> stall_seconds, save_seconds;
  {
    auto accelerator = on_gpu();
    Tensors net(mebibytes);
    const auto model = accelerator.prepare(net);
    for (int i = 0; i < saves; ++i) {
      save_seconds.push_back(bench::seconds_of([&] {
        stall_seconds.push_back(
            bench::seconds_of([&] { accelerator.save_state(folder, {.asynchronous = true}); }));
        accelerator.wait_for_save();
      }));
    }
  }
  std::filesystem::remove_all(folder);
  bench::report({{"stall_seconds", stall_seconds}, {"save_seconds", save_seconds}});
}

void run(const std::string& what, const Numbers& n) {
  const bench::TimedBlocks timed{n[0], n[1], n[2]};
  if (what == "transformer") return train(kTransformer, false, timed);
  if (what == "large") return train(kLarge, false, timed);
  if (what == "small") return train(kSmall, false, timed);
  if (what == "graphed") return train(kSmall, true, timed);
  if (what == "feed") return feed(n[0], n[1]);
  if (what == "fed") return train_on_images(n[0], n[1]);
  if (what == "checkpoint") return checkpoint(n[0], n[1]);
  throw std::invalid_argument(
      "'" + what + "' is not one of transformer, large, small, graphed, feed, fed, checkpoint");
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_word(argc, argv, {"NUMBER", "NUMBER", "NUMBER"}, run);
}
