// Lion, ScheduleFreeAdamW and Muon over the parts that a sharded model gives each rank; Adafactor,
// which needs whole matrices, is refused.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/optim/algorithms/adafactor.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/optim/algorithms/schedule_free_adamw.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using MakeAlgorithm =
    std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

template <typename Optimizer, typename Options>
MakeAlgorithm of_class(const Options& options) {
  return [options](const std::vector<at::Tensor>& leaves) {
    return std::make_unique<Optimizer>(leaves, options);
  };
}

// A net of a few layers, trained on rows that all ranks share; its weights in an evaluation.
std::vector<at::Tensor> trained_weights(const std::shared_ptr<Communicator>& comm,
                                        const MakeAlgorithm& make, bool sharded) {
  std::optional<FullyShardedDataParallelPlugin> plugin;
  if (sharded) plugin.emplace();
  Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
  torch::nn::Sequential net(torch::nn::Linear(5, 7), torch::nn::Tanh(), torch::nn::Linear(7, 3));
  {
    const torch::NoGradGuard no_grad;
    for (auto& leaf : net->parameters())
      leaf.copy_(torch::sin(torch::arange(leaf.numel()) + 1.0).view(leaf.sizes()));
  }
  const auto inner = make(net->parameters());
  auto [model, optimizer] = accelerator.prepare(net, *inner);
  for (int step = 0; step < 6; ++step) {
    optimizer.train();
    const auto x = torch::cos(torch::arange(20, at::kFloat) * (step + 1)).view({4, 5});
    accelerator.backward(model(x).square().mean());
    optimizer.step();
    optimizer.zero_grad();
    if (step % 2 == 1) optimizer.eval();
  }
  std::vector<at::Tensor> weights;
  const auto copy = [&] {
    for (const auto& leaf : net->parameters()) weights.push_back(leaf.detach().clone());
  };
  if (!sharded) return copy(), weights;
  const auto whole = model.summon_full_params({.writeback = false});
  return copy(), weights;
}

void expect_trained_alike(const MakeAlgorithm& make) {
  const auto expected = trained_weights(single_communicator(), make, false);
  const auto train = [&](const std::shared_ptr<Communicator>& comm) {
    const auto found = trained_weights(comm, make, true);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-5, 1e-6)) << "parameter " << i;
  };
  for (const auto engine : {testing::Engine::gloo, testing::Engine::shared_memory})
    testing::run_ranks_shared(3, train, {.engine = engine});
}

TEST(ShardedAlgorithms, LionTrainsShardsAsTheWhole) {
  expect_trained_alike(of_class<Lion>(LionOptions(0.01).weight_decay(0.1)));
}

TEST(ShardedAlgorithms, ScheduleFreeAdamWTrainsAndSwitchesShardsAsTheWhole) {
  expect_trained_alike(of_class<ScheduleFreeAdamW>(
      ScheduleFreeAdamWOptions(0.02).warmup_steps(3).r(0.5).weight_decay(0.1)));
}

TEST(ShardedAlgorithms, AdafactorIsRefused) {
  testing::run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    const auto message = testing::message_of<ConfigError>(
        [&] { (void)trained_weights(comm, of_class<Adafactor>(AdafactorOptions()), true); });
    for (const char* word : {"Adafactor", "AdamW", "Lion", "ScheduleFreeAdamW"})
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, word, message);
  });
}

}  // namespace
}  // namespace accelerate
