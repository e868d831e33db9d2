// A net that has what makes sharding hard: layers of one class to be wrapped, tied and frozen
// weights, a branch that not every step takes, sizes that no number of ranks divides.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/launch/config/fsdp_plugin.h"

namespace accelerate::testing {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width) {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    up = register_module("up", torch::nn::Linear(width, 2 * width + 1));
    down = register_module("down", torch::nn::Linear(2 * width + 1, width));
  }
  at::Tensor forward(const at::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct ShardedNetOptions {
  int blocks = 3;
  bool tied = false;        ///< The head has the weight of the first layer.
  bool frozen = false;      ///< Block 1 is not trained.
  bool has_branch = false;  ///< A layer that a forward may leave out.
};

struct ShardedNetImpl : torch::nn::Module {
  static constexpr std::int64_t kWidth = 7;

  explicit ShardedNetImpl(const ShardedNetOptions& options) {
    const torch::NoGradGuard no_grad;
    first = register_module("first", torch::nn::Linear(kWidth, kWidth));
    for (int i = 0; i < options.blocks; ++i)
      blocks->push_back(register_module("block" + std::to_string(i), Block(kWidth)));
    if (options.has_branch) branch = register_module("branch", Block(kWidth));
    if (options.tied) {
      head_weight = register_parameter("head_weight", first->weight);
    } else {
      head_weight = register_parameter("head_weight", torch::empty({kWidth, kWidth}));
    }
    int which = 0;
    for (auto& parameter : parameters()) {
      const auto numbers = torch::arange(parameter.numel(), torch::kDouble) + ++which;
      parameter.copy_((numbers.sin() * 0.3).view_as(parameter));
    }
    if (options.frozen) {
      for (auto& parameter : blocks->at(1)->parameters()) parameter.requires_grad_(false);
    }
  }
  at::Tensor forward(at::Tensor x, bool takes_branch) {
    x = torch::tanh(first(x));
    for (auto& block : *blocks) x = block(x);
    if (takes_branch) x = x + branch(x);
    return at::linear(x, head_weight);
  }

  torch::nn::Linear first{nullptr};
  std::shared_ptr<std::vector<Block>> blocks = std::make_shared<std::vector<Block>>();
  Block branch{nullptr};
  at::Tensor head_weight;
};
TORCH_MODULE(ShardedNet);

/// Rows that fall to this rank of the twelve of all ranks in `step`, fp64.
inline at::Tensor rows_of(int step, const Communicator& comm) {
  const auto all = (torch::arange(12 * ShardedNetImpl::kWidth, torch::kDouble) * 0.7 + step)
                       .sin()
                       .view({12, ShardedNetImpl::kWidth});
  return all.chunk(comm.size())[static_cast<std::size_t>(comm.rank())];
}

/// Every block is a unit, what is left the root.
inline FullyShardedDataParallelPlugin wrapping_blocks() {
  FullyShardedDataParallelPlugin plugin;
  plugin.auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  plugin.transformer_cls_names_to_wrap = {{"Block"}};
  return plugin;
}

}  // namespace accelerate::testing
