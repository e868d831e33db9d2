// The stages of DeepSpeed's ZeRO, as the launcher asks for them, train what one process trains.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/sharded_net.h"
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

// How a training of three steps clips to a norm of 0.01.
enum class Clips { by_nobody, by_call, by_closure };

// Returns the weights, whole, after three steps of SGD that would be another without clipping.
std::vector<at::Tensor> train_clipped(const std::shared_ptr<Communicator>& comm, Clips clips,
                                      double max_norm = 0.01) {
  Accelerator accelerator({.communicator = comm});
  ShardedNet net(testing::ShardedNetOptions{});
  net->to(at::kDouble);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.5));
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const auto x = torch::ones({4, 7}, at::kDouble);
  for (int step = 0; step < 3; ++step) {
    const auto compute = [&, &prepared = model] {
      const auto loss = prepared(x, false).square().mean();
      accelerator.backward(loss);
      return loss;
    };
    if (clips != Clips::by_closure) compute();
    if (clips == Clips::by_call) accelerator.clip_grad_norm_(net->parameters(), max_norm);
    optimizer.step(clips == Clips::by_closure ? AcceleratedOptimizer::Closure(compute) : nullptr);
    optimizer.zero_grad();
  }
  const auto whole = model.summon_full_params({.writeback = false});
  std::vector<at::Tensor> weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

double distance(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  double most = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    most = std::max(most, (left[i] - right[i]).abs().max().item<double>());
  return most;
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

TEST_P(Zero, AStepClipsAsTheFileSaysUnlessTheLoopDoes) {
  const auto free = train_clipped(single_communicator(), Clips::by_nobody);
  const auto clipped = train_clipped(single_communicator(), Clips::by_call);
  ASSERT_GT(distance(free, clipped), 1e-3);
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true"),
      stage("ACCELERATE_DEEPSPEED_ZERO_STAGE", GetParam()),
      clipping("ACCELERATE_GRADIENT_CLIPPING", "0.01");
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    EXPECT_LT(distance(train_clipped(comm, Clips::by_nobody), clipped), 1e-12);
    EXPECT_LT(distance(train_clipped(comm, Clips::by_closure), clipped), 1e-12);
    EXPECT_LT(distance(train_clipped(comm, Clips::by_call, 1e9), free), 1e-12);
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

// Otherwise the step would use an Accelerator that is gone.
TEST(ZeroSettings, AnOptimizerThatOutlivesItsAcceleratorClipsNoMore) {
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true"),
      clipping("ACCELERATE_GRADIENT_CLIPPING", "0.01");
  const auto weight = torch::zeros({3}, at::kDouble).requires_grad_();
  torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(1));
  std::optional<Accelerator> accelerator(AcceleratorOptions{.communicator = single_communicator()});
  auto optimizer = accelerator->prepare(sgd);
  const auto step = [&] {
    weight.mutable_grad() = torch::ones({3}, at::kDouble);
    optimizer.step();
  };
  step();
  EXPECT_NEAR(weight.detach().norm().item<double>(), 0.01, 1e-6);
  accelerator.reset();
  step();
  EXPECT_GT(weight.detach().norm().item<double>(), 1);
}

}  // namespace
}  // namespace accelerate
