// A model whose weights, gradients and optimizer state lie on disk, so that memory limits only how
// large a block may be. init_empty_weights() makes it without memory: no rank ever holds it whole.
//   bigger_than_memory [WIDTH [FOLDER]]
// WIDTH 2048 makes states of 4.3 GB and moves 11 GB a step. FOLDER: on a local disk, not in memory.
//   accelerate launch --num_processes 2 …
// gives each rank half of the states.
#include <accelerate/accelerate.h>
#include <accelerate/tensor/construction/init_on_device.h>

#include <string>

#include "examples/common/spirals.h"

namespace {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t width)
      : in(register_module("in", torch::nn::Linear(2, width))),
        blocks(register_module("blocks", torch::nn::Sequential())),
        out(register_module("out", torch::nn::Linear(width, 2))) {
    for (int i = 0; i < 8; ++i) blocks->push_back(Block(width));
  }
  /// points: float32 {n, 2}. Returns the scores of both spirals, float32 {n, 2}.
  torch::Tensor forward(const torch::Tensor& points) { return out(blocks->forward(in(points))); }
  torch::nn::Linear in;
  torch::nn::Sequential blocks;
  torch::nn::Linear out;
};
TORCH_MODULE(Net);

std::string megabytes(double bytes) {
  return spirals::line("%.1f MB", bytes / 1e6);
}

void run(std::int64_t width, const std::string& folder) {
  accelerate::FullyShardedDataParallelPlugin plugin;
  plugin.auto_wrap_policy = accelerate::AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  plugin.transformer_cls_names_to_wrap = {{"Block"}};
  plugin.disk_offload =
      accelerate::DiskOffload{.parameters_folder = folder, .optimizer_folder = folder};
  accelerate::Accelerator accelerator({.fsdp_plugin = plugin});
  accelerate::set_seed(42);
  Net net = [width] {
    const auto scope = accelerate::init_empty_weights();
    return Net(width);
  }();
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(2e-3));
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 64, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, adamw, samples);

  int steps = 0;
  for (int epoch = 0; epoch < 30; ++epoch) {
    for (auto& [points, labels] : batches) {
      accelerator.backward(torch::cross_entropy_loss(model(points), labels));
      optimizer.step();
      optimizer.zero_grad();
      ++steps;
    }
  }
  // Of this rank.
  const auto memory = model.core()->parallel().inspection->memory();
  const auto moved = static_cast<double>(memory.bytes_read + memory.bytes_written);
  accelerator.print("on disk: " + megabytes(static_cast<double>(memory.disk_bytes)));
  accelerator.print("in memory at most: " + megabytes(static_cast<double>(memory.peak_full_bytes)) +
                    " of weights, " + megabytes(static_cast<double>(memory.peak_gradient_bytes)) +
                    " of gradients");
  accelerator.print("read and written in a step: " + megabytes(moved / steps));
  const torch::NoGradGuard no_grad;
  const auto [test_points, truths] = spirals::test_samples();
  accelerator.print(
      spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths)));
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) try {
  run(argc > 1 ? std::stoll(argv[1]) : 64, argc > 2 ? argv[2] : "offload");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bigger_than_memory: %s\n", error.what());
  return 1;
}
