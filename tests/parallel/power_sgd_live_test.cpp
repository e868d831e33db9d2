// PowerSGD against live DDP of PyTorch in our order of buckets (tests/reference/power_sgd_live.py).
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

constexpr std::int64_t kTokens = 5, kRows = 3, kWidth = 8;

at::Tensor waves(at::IntArrayRef shape, double phase) {
  const auto count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(count, at::kDouble) * 0.7 + phase).to(at::kFloat).view(shape);
}

struct LstmImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return head(std::get<0>(lstm(x))); }
  torch::nn::LSTM lstm =
      register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kWidth, 16).num_layers(2)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, kWidth));
};
TORCH_MODULE(Lstm);

struct AttentionImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const auto k = key(x), v = value(x);
    return out(at::scaled_dot_product_attention(query(x), k, v));
  }
  torch::nn::Linear query = register_module("query", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear key = register_module("key", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear value = register_module("value", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kWidth, kWidth));
};
TORCH_MODULE(Attention);

template <typename Net>
void train(Net& net, const nlohmann::json& golden, const std::shared_ptr<Communicator>& comm) {
  {
    const torch::NoGradGuard no_grad;
    int which = 0;
    for (auto& parameter : net->parameters()) {
      parameter.copy_(waves(parameter.sizes(), which++) * 0.3);
    }
  }
  DistributedDataParallelKwargs ddp{.comm_hook = DDPCommunicationHookType::power_sgd};
  ddp.comm_state_option.start_powerSGD_iter = 2;
  ddp.comm_state_option.min_compression_rate = 1;
  Accelerator accelerator({.ddp = ddp, .communicator = comm});
  torch::optim::SGD sgd(net->parameters(), golden.at("rate").get<double>());
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  for (int step = 0; step < golden.at("steps").get<int>(); ++step) {
    const auto x = waves({kTokens, kRows, kWidth}, step + 10 * comm->rank());
    const auto target = waves({kTokens, kRows, kWidth}, 3 * step + comm->rank());
    accelerator.backward((model(x) - target).square().sum());
    optimizer.step();
    optimizer.zero_grad();
  }
}

template <typename Net>
void expect_weights_of_live_ddp(const std::string& name) {
  const auto golden = nlohmann::json::parse(testing::read_reference("power_sgd_live.json"));
  const auto& expected = golden.at("models").at(name);
  EXPECT_GT(expected.at("apart").get<double>(), 1e-4) << "the order of the bucket must matter";
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    Net net;
    train(net, golden, comm);
    EXPECT_EQ(net->parameters().size(), expected.at("weights").size());
    for (const auto& [key, weight] : net->named_parameters().pairs()) {
      const auto values = expected.at("weights").at(key).template get<std::vector<float>>();
      const auto off = (weight.detach().flatten() - torch::tensor(values)).abs().max();
      EXPECT_LT(off.template item<double>(), 5e-6) << key;
    }
  });
}

TEST(PowerSgdLive, TrainsAnLstmAsDdpDoesInOurOrder) {
  expect_weights_of_live_ddp<Lstm>("lstm");
}

TEST(PowerSgdLive, TrainsAttentionAsDdpDoesInOurOrder) {
  expect_weights_of_live_ddp<Attention>("attention");
}

}  // namespace
}  // namespace accelerate
