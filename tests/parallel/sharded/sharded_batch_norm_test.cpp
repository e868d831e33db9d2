// Batch norms of a sharded model under mixed precision: their operator takes parameters and
// statistics of one type, and statistics stay fp32.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

struct ConvolutionsImpl : torch::nn::Module {
  ConvolutionsImpl() {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) {
      parameter.copy_(torch::arange(parameter.numel()).sin().view_as(parameter));
    }
  }
  at::Tensor forward(const at::Tensor& images) {
    return head(torch::relu(norm(conv(images))).mean(c10::IntArrayRef{2, 3}));
  }
  torch::nn::Conv2d conv =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 3, 3)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(3));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(3, 1));
};
TORCH_MODULE(Convolutions);

struct Seen {
  double loss = 0;
  at::ScalarType conv{}, norm{}, statistics{};
};

// The last of three steps on the same images, and the types of what it computed with.
Seen train(const std::shared_ptr<Communicator>& comm,
           const FullyShardedDataParallelPlugin& plugin) {
  Accelerator accelerator(
      {.mixed_precision = MixedPrecision::bf16, .fsdp_plugin = plugin, .communicator = comm});
  Convolutions net;
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1));
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const auto images = torch::arange(2 * 2 * 5 * 5, torch::kFloat).sin().view({2, 2, 5, 5});
  Seen seen;
  for (int step = 0; step < 3; ++step) {
    const auto loss = model(images).square().mean();
    accelerator.backward(loss);
    seen.loss = loss.item<double>();
    seen.conv = net->conv->weight.scalar_type();
    seen.norm = net->norm->weight.scalar_type();
    seen.statistics = net->norm->running_mean.scalar_type();
    optimizer.step();
    optimizer.zero_grad();
  }
  return seen;
}

TEST(ShardedBatchNorm, TrainsInFullPrecisionBesideLayersInBf16) {
  using enum AutoWrapPolicy;
  for (const int version : {1, 2}) {
    for (const AutoWrapPolicy policy : {NO_WRAP, TRANSFORMER_BASED_WRAP}) {
      testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
        const Seen seen = train(comm, {.fsdp_version = version,
                                       .auto_wrap_policy = policy,
                                       .transformer_cls_names_to_wrap = {{"Conv2d", "Linear"}}});
        EXPECT_EQ(seen.conv, at::kBFloat16);
        EXPECT_EQ(seen.norm, at::kFloat);
        EXPECT_EQ(seen.statistics, at::kFloat);
        EXPECT_TRUE(std::isfinite(seen.loss));
      });
    }
  }
}

}  // namespace
}  // namespace accelerate
