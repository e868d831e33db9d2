// The stages of DeepSpeed's ZeRO, as the launcher asks for them, train what one process trains.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/accelerator/sharded_net.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::run_ranks_shared;
using testing::ScopedEnv;
using testing::ShardedNet;

std::vector<at::Tensor> train(const std::shared_ptr<Communicator>& comm) {
  Accelerator accelerator({.communicator = comm});
  ShardedNet net(testing::ShardedNetOptions{});
  net->to(at::kDouble);
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(0.01));
  auto [model, optimizer] = accelerator.prepare(net, adamw);
  const auto x = torch::sin(torch::arange(8 * 7, at::kDouble))
                     .view({8, 7})
                     .chunk(comm->size())[static_cast<std::size_t>(comm->rank())];
  for (int step = 0; step < 5; ++step) {
    accelerator.backward(model(x, false).square().mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto whole = model.summon_full_params({.writeback = false});
  std::vector<at::Tensor> weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

class Zero : public ::testing::TestWithParam<const char*> {};

TEST_P(Zero, AStageTrainsAsOneProcess) {
  const auto expected = train(single_communicator());
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true");
  const ScopedEnv stage("ACCELERATE_DEEPSPEED_ZERO_STAGE", GetParam());
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    const auto found = train(comm);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT((found[i] - expected[i]).abs().max().item<double>(), 1e-12) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, Zero, ::testing::Values("0", "1", "2", "3"),
                         [](const auto& info) { return std::string("Stage") + info.param; });

TEST(ZeroSettings, IsWhatTheAcceleratorSaysItIs) {
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true");
  EXPECT_EQ(Accelerator({.communicator = single_communicator()}).distributed_type(),
            DistributedType::DEEPSPEED);
}

TEST(ZeroSettings, ALayerOfExpertsThatTheModelLacksIsNamed) {
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true");
  const ScopedEnv classes("ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", "MixtralMoe");
  Accelerator accelerator({.communicator = single_communicator()});
  ShardedNet net(testing::ShardedNetOptions{});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "MixtralMoe",
                      message_of<ConfigError>([&] { (void)accelerator.prepare(net); }));
}

TEST(ZeroSettings, ClippingByAKeyIsRefusedWithTheCall) {
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true");
  const ScopedEnv clipping("ACCELERATE_GRADIENT_CLIPPING", "1.0");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "clip_grad_norm_", message_of<ConfigError>([] {
                        Accelerator accelerator({.communicator = single_communicator()});
                      }));
}

}  // namespace
}  // namespace accelerate
