// Settings of sharded training, and kinds of models: with files on disk each ends in the numbers that
// it ends in without, to the bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/offloaded_program.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::batch_of;
using testing::expect_alike_on_disk;
using testing::OffloadedRank;
using testing::OffloadedSetting;
using testing::ShardedNet;
using testing::ShardedNetOptions;
using testing::whole_weights;

class OffloadSettings : public ::testing::TestWithParam<MixedPrecision> {
 protected:
  static OffloadedSetting setting() { return {.precision = GetParam()}; }
  static std::vector<at::Tensor> train(const AcceleratorOptions& options) {
    OffloadedRank rank(options, {.tied = true, .frozen = true});
    for (int step = 0; step < 3; ++step) rank.step(step);
    return rank.weights();
  }
};
INSTANTIATE_TEST_SUITE_P(Precisions, OffloadSettings,
                         ::testing::Values(MixedPrecision::no, MixedPrecision::bf16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(OffloadSettings, MayNameCopiesOfTheModel) {
  for (const int size : {1, 2}) {
    auto given = setting();
    given.ranks = 4;
    given.plugin.sharding_strategy = ShardingStrategy::HYBRID_SHARD;
    given.plugin.shard_group_size = size;
    expect_alike_on_disk(train, given);
  }
}

TEST_P(OffloadSettings, MayComputeActivationsAgain) {
  auto given = setting();
  given.plugin.activation_checkpointing = true;
  expect_alike_on_disk(train, given);
}

TEST_P(OffloadSettings, MayTakeValuesOfRank0AndLeaveModulesOut) {
  auto given = setting();
  given.plugin.sync_module_states = true;
  given.plugin.ignored_modules = {{"block2"}};
  given.plugin.cpu_offload = true;
  expect_alike_on_disk(train, given);
}

// The others lose the same batch and no other.
TEST_P(OffloadSettings, MayLoseABatchOnOneRank) {
  auto given = setting();
  given.engine = testing::Engine::gloo;
  expect_alike_on_disk(
      [](const AcceleratorOptions& options) {
        OffloadedRank rank(options);
        for (int step = 0; step < 4; ++step) {
          if (options.communicator->rank() == 1) {
            EXPECT_THROW((void)rank.model(torch::ones({2, 3}), false), c10::Error);
          } else {
            EXPECT_THROW((void)rank.loss(step), CommError);
          }
          rank.step(step);
        }
        return rank.weights();
      },
      given);
}

TEST_P(OffloadSettings, MayOnlyEvaluate) {
  expect_alike_on_disk(
      [](const AcceleratorOptions& options) {
        Accelerator accelerator(options);
        ShardedNet net{ShardedNetOptions{}};
        for (auto& parameter : net->parameters()) parameter.requires_grad_(false);
        auto model = accelerator.prepare(net);
        auto found = whole_weights(model, net);
        for (int step = 0; step < 3; ++step) {
          const c10::InferenceMode inference;
          found.push_back(model(batch_of(step, options), false).clone());
        }
        return found;
      },
      setting());
}

TEST_P(OffloadSettings, MayFreezeAPartForAWhile) {
  expect_alike_on_disk(
      [](const AcceleratorOptions& options) {
        OffloadedRank rank(options);
        for (int step = 0; step < 5; ++step) {
          const bool is_frozen = step == 1 || step == 2;
          for (auto& parameter : rank.net->blocks->at(1)->parameters())
            parameter.requires_grad_(!is_frozen);
          rank.step(step);
        }
        return rank.weights();
      },
      setting());
}

// Another tensor in place of a gradient, or of what an optimizer remembers.
TEST_P(OffloadSettings, MayPutOtherTensorsInPlaceOfGradientsAndState) {
  expect_alike_on_disk(
      [](const AcceleratorOptions& options) {
        const torch::NoGradGuard no_grad;
        OffloadedRank rank(options);
        for (int step = 0; step < 4; ++step) {
          {
            const torch::AutoGradMode grad(true);
            rank.backward(step);
          }
          for (auto& parameter : rank.adamw.param_groups().front().params()) {
            parameter.mutable_grad() = parameter.grad() * 0.5;
            if (step == 0) continue;
            auto& state = static_cast<torch::optim::AdamWParamState&>(
                *rank.adamw.state().at(parameter.unsafeGetTensorImpl()));
            state.exp_avg(state.exp_avg() * 0.5);
          }
          rank.optimizer.step();
        }
        return rank.weights();
      },
      setting());
}

TEST(OffloadedModels, MayBeMadeWithoutMemory) {
  OffloadedSetting given{.ranks = 1};
  given.plugin = {};
  expect_alike_on_disk(
      [](const AcceleratorOptions& options) {
        Accelerator accelerator(options);
        torch::manual_seed(3);
        torch::nn::Linear net{nullptr};
        {
          const auto scope = init_empty_weights();
          net = torch::nn::Linear(7, 3);
        }
        torch::optim::Adagrad adagrad(
            net->parameters(), torch::optim::AdagradOptions(0.05).initial_accumulator_value(0.2));
        auto [model, optimizer] = accelerator.prepare(net, adagrad);
        for (int step = 0; step < 3; ++step) {
          accelerator.backward(model(batch_of(step, options)).square().mean());
          optimizer.step();
          optimizer.zero_grad();
        }
        return whole_weights(model, net);
      },
      given);
}

}  // namespace
}  // namespace accelerate
