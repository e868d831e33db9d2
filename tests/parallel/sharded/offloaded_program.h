// A program that trains a sharded model, run in memory and with files on disk.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/sharded_net.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate::testing {

/// Parameters and optimizer in files below `root`.
inline DiskOffload all_on_disk(const std::filesystem::path& root) {
  return {.parameters_folder = root.string(), .optimizer_folder = root.string()};
}

/// A program on one rank, and what it leaves.
using OffloadedProgram = std::function<std::vector<at::Tensor>(const AcceleratorOptions&)>;

struct OffloadedSetting {
  int ranks = 2;
  MixedPrecision precision = MixedPrecision::no;
  FullyShardedDataParallelPlugin plugin = wrapping_blocks();
  Engine engine = Engine::shared_memory;
};

/// Returns the options of a rank.
inline AcceleratorOptions options_of(const OffloadedSetting& setting,
                                     const std::shared_ptr<Communicator>& comm,
                                     const std::optional<DiskOffload>& offload) {
  auto plugin = setting.plugin;
  plugin.disk_offload = offload;
  return {.mixed_precision = setting.precision, .fsdp_plugin = plugin, .communicator = comm};
}

/// `program` leaves equal tensors in memory and on disk, to the bit, and no folders.
inline void expect_alike_on_disk(const OffloadedProgram& program,
                                 const OffloadedSetting& setting = {}) {
  const TemporaryFolder root;
  run_ranks_shared(setting.ranks,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     const auto in_memory = program(options_of(setting, comm, std::nullopt));
                     const auto on_disk =
                         program(options_of(setting, comm, all_on_disk(root.path())));
                     ASSERT_EQ(in_memory.size(), on_disk.size());
                     for (std::size_t i = 0; i < in_memory.size(); ++i)
                       EXPECT_TRUE(on_disk[i].equal(in_memory[i])) << "tensor " << i;
                   },
                   {.engine = setting.engine});
  for (const auto& entry : std::filesystem::directory_iterator(root.path()))
    EXPECT_FALSE(entry.is_directory()) << entry.path() << " was not removed";
}

/// Returns copies of the whole parameters of `net`, which `model` is. [collective]
template <typename Model, typename Net>
std::vector<at::Tensor> whole_weights(Model& model, Net& net) {
  const auto whole = model.summon_full_params({.writeback = false});
  std::vector<at::Tensor> weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

/// Batch number `step` of this rank.
inline at::Tensor batch_of(int step, const AcceleratorOptions& options) {
  return rows_of(step, *options.communicator).to(at::kFloat);
}

/// A rank with a net, and AdamW over all of it.
struct OffloadedRank {
  explicit OffloadedRank(const AcceleratorOptions& options, const ShardedNetOptions& of_net = {})
      : accelerator(options), net(of_net) {}

  [[nodiscard]] at::Tensor loss(int step) {
    const auto x = rows_of(step, accelerator.communicator()).to(at::kFloat);
    return (model(x, false).to(at::kFloat) - x.flip(1)).square().mean();
  }
  void backward(int step) { accelerator.backward(loss(step)); }
  void step(int number) {
    backward(number);
    optimizer.step();
    optimizer.zero_grad();
  }
  [[nodiscard]] std::vector<at::Tensor> weights() { return whole_weights(model, net); }

  Accelerator accelerator;
  ShardedNet net;
  torch::optim::AdamW adamw{net->parameters(), torch::optim::AdamWOptions(0.01)};
  Prepared<ShardedNet> model = accelerator.prepare(net);
  AcceleratedOptimizer optimizer = accelerator.prepare(adamw);
};

}  // namespace accelerate::testing
