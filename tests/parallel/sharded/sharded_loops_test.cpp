// Loops that treat gradients and groups as users do with whole models: sharded, they end in the
// same weights, or are refused.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/fails_in_backward.h"
#include "tests/parallel/sharded/sharded_places.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::ShardedNet;
using testing::ShardedNetOptions;

struct ShardedLoop {
  using Plugin = std::optional<FullyShardedDataParallelPlugin>;

  ShardedLoop(const std::shared_ptr<Communicator>& comm, Plugin plugin, int micro_batches,
              const std::function<void(ShardedNet&)>& before)
      : accelerator({.gradient_accumulation_steps = micro_batches,
                     .fsdp_plugin = std::move(plugin),
                     .communicator = comm}),
        net(prepared_by(before)) {}

  static ShardedNet prepared_by(const std::function<void(ShardedNet&)>& before) {
    ShardedNet net{ShardedNetOptions{.has_branch = true}};
    if (before) before(net);
    return net;
  }

  // All ranks have the same rows.
  [[nodiscard]] at::Tensor loss(bool takes_branch = true) {
    const auto x = torch::arange(14).view({2, ShardedNet::Impl::kWidth}) * 0.1;
    return (model(x, takes_branch) - x.flip(1)).square().mean();
  }
  void step(bool takes_branch = true) {
    accelerator.backward(loss(takes_branch));
    optimizer.step();
    optimizer.zero_grad();
  }
  [[nodiscard]] std::vector<at::Tensor> weights() {
    const auto whole = model.summon_full_params({.writeback = false});
    std::vector<at::Tensor> all;
    for (const auto& leaf : net->parameters()) all.push_back(leaf.detach().clone());
    return all;
  }

  Accelerator accelerator;
  ShardedNet net;
  torch::optim::SGD sgd{net->parameters(),
                        torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1)};
  Prepared<ShardedNet> model = accelerator.prepare(net);
  AcceleratedOptimizer optimizer = accelerator.prepare(sgd);
};

class ShardedLoops : public ::testing::TestWithParam<testing::ShardedPlace> {
 protected:
  using Play = std::function<void(ShardedLoop&)>;

  void on_two_ranks(const Play& play, const std::function<void(ShardedNet&)>& before = {}) {
    testing::run_ranks_at(GetParam(), 2, [&](const std::shared_ptr<Communicator>& comm) {
      ShardedLoop loop(comm, testing::plugin_of(GetParam()), micro_batches, before);
      play(loop);
    });
  }
  // That two ranks end where one process does that has the whole model.
  void expect_as_alone(const Play& play, const std::function<void(ShardedNet&)>& before = {}) {
    ShardedLoop alone(single_communicator(), std::nullopt, micro_batches, before);
    play(alone);
    const auto expected = alone.weights();
    on_two_ranks(
        [&](ShardedLoop& loop) {
          play(loop);
          const auto found = loop.weights();
          ASSERT_EQ(found.size(), expected.size());
          for (std::size_t i = 0; i < found.size(); ++i) {
            EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-5, 1e-6)) << i;
          }
        },
        before);
  }

  int micro_batches = 1;
};

TEST_P(ShardedLoops, ZeroGradDropsWhatABackwardBeforePrepareLeft) {
  const auto dry_run = [](ShardedNet& net) {
    (net(torch::ones({1, ShardedNet::Impl::kWidth}), true) * 100).sum().backward();
  };
  const auto play = [](ShardedLoop& loop) {
    for (int i = 0; i < 2; ++i) {
      loop.optimizer.zero_grad();
      loop.accelerator.backward(loop.loss());
      loop.optimizer.step();
    }
  };
  expect_as_alone(play, dry_run);
}

TEST_P(ShardedLoops, ZeroGradOfTheModuleBeforeTheStepDropsGradients) {
  expect_as_alone([](ShardedLoop& loop) {
    loop.step();
    loop.accelerator.backward(loop.loss() * NAN);
    loop.net->zero_grad();
    const auto norm = loop.accelerator.clip_grad_norm_(loop.model.parameters(), 1.0);
    EXPECT_EQ(norm.item<double>(), 0.0);
    loop.optimizer.step();
    loop.step();
  });
}

TEST_P(ShardedLoops, AGradientOfOneParameterMayBeTakenAwayBeforeTheStep) {
  expect_as_alone([](ShardedLoop& loop) {
    loop.accelerator.backward(loop.loss());
    loop.net->head_weight.mutable_grad() = at::Tensor();
    loop.optimizer.step();
    loop.optimizer.zero_grad();
    loop.step();
  });
}

// Momentum and decay go on where a step brings no gradient.
TEST_P(ShardedLoops, ZeroGradMayLeaveZeros) {
  expect_as_alone([](ShardedLoop& loop) {
    for (const bool takes_branch : {true, true, false, false, true}) {
      loop.accelerator.backward(loop.loss(takes_branch));
      loop.optimizer.step();
      loop.optimizer.zero_grad(/*set_to_none=*/false);
    }
  });
}

TEST_P(ShardedLoops, GroupsMayComeLater) {
  expect_as_alone([](ShardedLoop& loop) {
    torch::optim::Adam adam(loop.net->branch->parameters(), torch::optim::AdamOptions(0.01));
    auto prepared = loop.accelerator.prepare(adam);
    const auto step = [&] {
      loop.accelerator.backward(loop.loss());
      prepared.step();
      prepared.zero_grad();
    };
    step();
    const auto block = [&loop](std::size_t i) { return loop.net->blocks->at(i)->parameters(); };
    prepared.add_param_group({block(0)});
    step();
    adam.add_param_group({block(1)});
    (void)loop.accelerator.prepare(adam);
    step();
    loop.optimizer.zero_grad();
  });
}

// What it ends in would lack the first micro-batch.
TEST_P(ShardedLoops, ABackwardThatFailsInsideAWindowSpoilsTheWindow) {
  micro_batches = 3;
  const auto micro_batch = [](ShardedLoop& loop, bool fails) {
    const auto window = loop.accelerator.accumulate(loop.model);
    const auto loss = loop.loss();
    loop.accelerator.backward(fails ? testing::FailsInBackward::apply(loss) : loss);
    loop.optimizer.step();
    loop.optimizer.zero_grad();
  };
  expect_as_alone([&](ShardedLoop& loop) {
    micro_batch(loop, false);
    EXPECT_THROW(micro_batch(loop, true), std::runtime_error);
    EXPECT_THROW(micro_batch(loop, false), UsageError);
    loop.optimizer.zero_grad();
    for (int i = 0; i < 3; ++i) micro_batch(loop, false);
  });
}

TEST_P(ShardedLoops, AnOptimizerOverPartsThatWasNotPreparedIsRefused) {
  testing::run_ranks_at(GetParam(), 2, [this](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = testing::plugin_of(GetParam()), .communicator = comm});
    ShardedNet net{ShardedNetOptions{}};
    auto model = accelerator.prepare(net);
    torch::optim::SGD stranger(model.local_parameters(), 0.1);
    const auto x = torch::ones({2, ShardedNet::Impl::kWidth});
    const auto step = [&] {
      accelerator.backward(model(x, false).sum());
      stranger.step();
      stranger.zero_grad();
    };
    step();
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "not by a prepared optimizer",
                        message_of<UsageError>(step));
  });
}

TEST_P(ShardedLoops, NothingIsSavedOrLoadedInsideSummon) {
  const testing::TemporaryFolder home;
  on_two_ranks([&](ShardedLoop& loop) {
    loop.step();
    loop.accelerator.save_state(home.path() / "state");
    {
      const auto whole = loop.model.summon_full_params();
      const std::vector<std::function<void()>> calls = {
          [&] { loop.accelerator.save_model(loop.model, home.path() / "weights"); },
          [&] { (void)loop.accelerator.get_state_dict(loop.model); },
          [&] { loop.accelerator.save_state(home.path() / "other"); },
          [&] { loop.accelerator.load_state(home.path() / "state"); }};
      for (const auto& call : calls) {
        EXPECT_PRED_FORMAT2(::testing::IsSubstring, "summon_full_params",
                            message_of<UsageError>(call));
      }
    }
    loop.accelerator.load_state(home.path() / "state");
    loop.step();
  });
}

TEST_P(ShardedLoops, PartsComeInTheOrderOfTheModel) {
  on_two_ranks([](ShardedLoop& loop) {
    const auto& engine = *loop.model.core()->parallel().parts;
    const auto leaves = loop.model.parameters(), parts = loop.model.local_parameters();
    ASSERT_EQ(leaves.size(), parts.size());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_TRUE(engine.local_parameter(leaves[i]).is_same(parts[i])) << i;
    }
  });
}

// Blocks that run in the order in which they are declared are sent from the last one on; these are
// not, and a backward past them must not settle it.
TEST_P(ShardedLoops, TheOrderOfUnitsIsThatOfTheFirstBackwardThroughTheModel) {
  struct Twisted : torch::nn::Module {
    at::Tensor forward(const at::Tensor& x) { return a(b(x)); }
    testing::Block a = register_module("a", testing::Block(4));
    testing::Block b = register_module("b", testing::Block(4));
  };
  testing::run_ranks_at(GetParam(), 2, [this](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = testing::plugin_of(GetParam()), .communicator = comm});
    Twisted net;
    torch::optim::SGD sgd(net.parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    const auto alone = torch::ones({}, torch::requires_grad());
    std::vector<std::string> sent;
    accelerator.backward(alone * 2);
    for (int i = 0; i < 2; ++i) {
      sent.clear();
      model.core()->parallel().inspection->set_observer([&](const ShardEvent& event) {
        if (event.kind == ShardEvent::Kind::reduce) sent.push_back(event.unit);
      });
      accelerator.backward(model(torch::ones({1, 4})).sum());
      optimizer.step();
      optimizer.zero_grad();
    }
    model.core()->parallel().inspection->set_observer({});
    EXPECT_EQ(sent, (std::vector<std::string>{"a", "b"}));
  });
}

// Units that stay until the backward is over have gone when it is the second.
TEST(ShardedLoop, ARankThatAloneGathersInABackwardIsNoReasonToWait) {
  auto plugin = testing::wrapping_blocks();
  plugin.sharding_strategy = ShardingStrategy::SHARD_GRAD_OP;
  const auto body = [&plugin](const std::shared_ptr<Communicator>& comm) {
    ShardedLoop loop(comm, plugin, 1, {});
    loop.step();
    const auto all = loop.loss(true), some = loop.loss(false);
    loop.accelerator.backward(some, {.retain_graph = true});
    loop.optimizer.zero_grad();
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "unit 'branch'", message_of<Error>([&] {
                          loop.accelerator.backward(comm->rank() == 0 ? all * some : some);
                        }));
  };
  testing::run_ranks_shared(2, body, {.engine = testing::Engine::gloo});
}

// What one rank has from a micro-batch before needs nobody's parameters.
TEST(ShardedLoop, ARankMayAloneBringGradientsOfAnEarlierMicroBatch) {
  auto plugin = testing::wrapping_blocks();
  plugin.sharding_strategy = ShardingStrategy::SHARD_GRAD_OP;
  const auto body = [&plugin](const std::shared_ptr<Communicator>& comm) {
    ShardedLoop loop(comm, plugin, 2, {});
    for (const bool takes_branch : {true, false}) {
      const auto window = loop.accelerator.accumulate(loop.model);
      const auto some = loop.loss(false);
      const auto loss = takes_branch ? loop.loss(true) + some : some;
      loop.accelerator.backward(comm->rank() == 0 ? loss : some);
      loop.optimizer.step();
      loop.optimizer.zero_grad();
    }
  };
  EXPECT_NO_THROW(testing::run_ranks_shared(2, body, {.engine = testing::Engine::gloo}));
}

INSTANTIATE_TEST_SUITE_P(Places, ShardedLoops, testing::sharded_places(), testing::kNameOfPlace);

}  // namespace
}  // namespace accelerate
