// Trains a model of equal blocks whose states lie in memory or on disk, on the ranks that it is
// launched on. Reports on rank 0 what each step took, moved, and came to, of all ranks.
// originals/offload_steps.py does the same with DeepSpeed.
//
// usage: bench_offload_steps FOLDER|memory BLOCKS WIDTH ROWS STEPS MAX_IN_CPU_MIB
//
// A block has 8 x WIDTH² weights and a few more. MAX_IN_CPU_MIB: slices that stay in memory.
#include <accelerate/accelerate.h>
#include <accelerate/tensor/construction/init_on_device.h>
#include <torch/torch.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/programs/measure.h"

namespace {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}
  at::Tensor forward(const at::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl(int count, std::int64_t width) {
    for (int i = 0; i < count; ++i) blocks->push_back(Block(width));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return x;
  }
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
};
TORCH_MODULE(Net);

struct Sizes {
  int blocks, width, rows, steps, max_in_cpu_mib;
};

accelerate::FullyShardedDataParallelPlugin plugin_of(const std::string& folder,
                                                     const Sizes& sizes) {
  accelerate::FullyShardedDataParallelPlugin plugin;
  plugin.auto_wrap_policy = accelerate::AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  plugin.transformer_cls_names_to_wrap = {{"Block"}};
  plugin.forward_prefetch = true;
  plugin.backward_prefetch = accelerate::BackwardPrefetch::BACKWARD_PRE;
  if (folder != "memory") {
    plugin.disk_offload =
        accelerate::DiskOffload{.parameters_folder = folder,
                                .optimizer_folder = folder,
                                .max_in_cpu = std::int64_t{sizes.max_in_cpu_mib} << 20};
  }
  return plugin;
}

// Returns FNV-1a over the words of all values, so that two programs whose weights differ in a bit
// print two numbers. Threads and libraries have no say in it.
std::string hash_of(const std::vector<at::Tensor>& tensors) {
  std::uint64_t hash = 14695981039346656037U;
  for (const auto& tensor : tensors) {
    const auto* values = static_cast<const std::byte*>(tensor.const_data_ptr());
    for (std::size_t i = 0; i + 4 <= tensor.nbytes(); i += 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, values + i, 4);
      hash = (hash ^ word) * 1099511628211U;
    }
  }
  return std::to_string(hash);
}

// Returns what the kernel counts of this process at the disk: "read_bytes" or "write_bytes".
std::uint64_t kernel_bytes(const std::string& key) {
  std::ifstream file("/proc/self/io");
  for (std::string word; file >> word;) {
    std::uint64_t bytes = 0;
    if (word == key + ":" && file >> bytes) return bytes;
  }
  throw std::runtime_error("/proc/self/io has no " + key);
}

struct Bytes {
  std::uint64_t read, written;  // As the engine counts.
  std::uint64_t kernel_read, kernel_written;
};

template <typename Model>
Bytes bytes_of(Model& model) {
  const auto memory = model.core()->parallel().inspection->memory();
  return {memory.bytes_read, memory.bytes_written, kernel_bytes("read_bytes"),
          kernel_bytes("write_bytes")};
}

template <typename Model, typename Optimizer>
nlohmann::json train(accelerate::Accelerator& accelerator, Model& model, Optimizer& optimizer,
                     const at::Tensor& x) {
  const Bytes before = bytes_of(model);
  at::Tensor loss;
  const double forward = bench::seconds_of([&] { loss = model(x).square().mean(); });
  const double backward = bench::seconds_of([&] { accelerator.backward(loss); });
  const double update = bench::seconds_of([&] {
    optimizer.step();
    optimizer.zero_grad();
  });
  const Bytes after = bytes_of(model);
  return {{"seconds", forward + backward + update},
          {"forward", forward},
          {"backward", backward},
          {"update", update},
          {"loss", loss.template item<double>()},
          {"read", after.read - before.read},
          {"written", after.written - before.written},
          {"kernel_read", after.kernel_read - before.kernel_read},
          {"kernel_written", after.kernel_written - before.kernel_written}};
}

void run(const std::string& folder, const Sizes& sizes) {
  accelerate::Accelerator accelerator({.cpu = true, .fsdp_plugin = plugin_of(folder, sizes)});
  accelerate::set_seed(42);
  Net net = [&] {
    const auto scope = accelerate::init_empty_weights();
    return Net(sizes.blocks, sizes.width);
  }();
  std::int64_t numel = 0;
  for (const auto& weight : net->parameters()) numel += weight.numel();
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(1e-4));
  auto [model, optimizer] = accelerator.prepare(net, adamw);
  const auto x = torch::randn({sizes.rows, sizes.width});

  nlohmann::json steps;
  for (int i = 0; i < sizes.steps; ++i) steps.push_back(train(accelerator, model, optimizer, x));

  // Of this rank's slices, which the optimizer holds.
  const std::string hash = hash_of(adamw.param_groups().front().params());
  nlohmann::json mine;
  mine["steps"] = steps;
  mine["hash"] = hash;
  mine["disk_bytes"] = model.core()->parallel().inspection->memory().disk_bytes;
  nlohmann::json ranks;
  for (const auto& rank :
       accelerator.gather_object_for_metrics(std::vector<std::string>{mine.dump()}))
    ranks.push_back(nlohmann::json::parse(rank));
  if (accelerator.is_main_process()) bench::report({{"parameters", numel}, {"by_rank", ranks}});
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_word(argc, argv, {"BLOCKS", "WIDTH", "ROWS", "STEPS", "MAX_IN_CPU_MIB"},
                              [](const std::string& folder, const std::vector<int>& numbers) {
                                run(folder,
                                    {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]});
                              });
}
