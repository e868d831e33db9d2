// Tensors over one memory in a sharded model: ties, and views that a constructor made.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/tensor/construction/init_on_device.h"
#include "tests/parallel/sharded/sharded_rank.h"
#include "tests/support/log_capture.h"

namespace accelerate {
namespace {

using testing::expect_says;
using testing::message_of;
using Rank = testing::ShardedRank;
using testing::plugin_of;
using testing::ShardedNet;
using testing::ShardedNetOptions;

class ShardedTies : public testing::TwoShardedRanks {};

TEST_P(ShardedTies, TensorsOverOneMemoryInTwoUnitsAreRefused) {
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = plugin_of(GetParam()), .communicator = comm});
    ShardedNet net{ShardedNetOptions{}};
    net->blocks->at(0)->up->weight.set_data(net->blocks->at(2)->up->weight);
    expect_says(message_of<UsageError>([&] { (void)accelerator.prepare(net); }),
                {"block0.up.weight", "block2.up.weight", "share memory"});
  });
}

TEST_P(ShardedTies, TensorsOverOneMemoryThatIsNotThereYetAreRefusedToo) {
  std::vector<ShardedNet> nets;
  for (int rank = 0; rank < 2; ++rank) {
    const auto scope = init_empty_weights();
    nets.emplace_back(ShardedNetOptions{});
    nets.back()->blocks->at(0)->up->weight.set_data(nets.back()->blocks->at(2)->up->weight);
  }
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = plugin_of(GetParam()), .communicator = comm});
    auto& net = nets[static_cast<std::size_t>(comm->rank())];
    expect_says(message_of<UsageError>([&] { (void)accelerator.prepare(net); }),
                {"block0.up.weight", "block2.up.weight", "share memory"});
  });
}

// One process adds both gradients to the one memory; so do ranks that have parts of it.
TEST_P(ShardedTies, TensorsOverOneMemoryInOneUnitAreTrainedAsOne) {
  const auto train = [&](Accelerator& accelerator) {
    ShardedNet net{ShardedNetOptions{}};
    net->head_weight.set_data(net->first->weight);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    const auto x = torch::ones({2, ShardedNet::Impl::kWidth});
    for (int i = 0; i < 3; ++i) {
      accelerator.backward(model(x, false).square().mean());
      optimizer.step();
      optimizer.zero_grad();
    }
    const auto whole = model.summon_full_params({.writeback = false});
    return net->head_weight.detach().clone();
  };
  Accelerator alone({.communicator = single_communicator()});
  const auto expected = train(alone);
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = plugin_of(GetParam()), .communicator = comm});
    EXPECT_LT((train(accelerator) - expected).abs().max().item<double>(), 1e-5);
  });
}

TEST_P(ShardedTies, AParameterThatTyingLeftBehindIsNamedOnce) {
  const testing::LogCapture log;
  on_two_ranks(
      [](Rank& rank) { rank.step(), rank.step(); },
      [](ShardedNet::Impl& net) { net.blocks->at(2)->up->weight = net.blocks->at(0)->up->weight; });
  ASSERT_EQ(log.lines().size(), 1U);
  expect_says(log.lines().front(), {"WARNING", "gradient of block2.up.weight in", "tied"});
}

struct WithViewImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return at::matmul(torch::tanh(encoder(x)), decoder); }
  torch::nn::Linear encoder = register_module("encoder", torch::nn::Linear(5, 3));
  at::Tensor decoder = encoder->weight;
};
TORCH_MODULE(WithView);

TEST_P(ShardedTies, AViewThatAConstructorMadeIsNamed) {
  for (const bool is_view : {false, true}) {
    const testing::LogCapture log;
    run_two([&](const std::shared_ptr<Communicator>& comm) {
      auto plugin = plugin_of(GetParam());
      plugin.auto_wrap_policy = AutoWrapPolicy::NO_WRAP;
      Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
      WithView net;
      if (is_view) net->decoder = net->encoder->weight.view({3, 5});
      const auto model = accelerator.prepare(net);
    });
    ASSERT_EQ(log.lines().size(), is_view ? 1U : 0U);
    if (is_view) expect_says(log.lines().front(), {"WARNING", "encoder.weight", "in forward()"});
  }
}

INSTANTIATE_TEST_SUITE_P(Places, ShardedTies, testing::sharded_places(), testing::kNameOfPlace);

}  // namespace
}  // namespace accelerate
