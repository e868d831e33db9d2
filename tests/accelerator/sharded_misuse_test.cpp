// What users do to sharded models by mistake: every rank gets a sentence, and none waits for ever.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "accelerate/accelerate.h"
#include "tests/accelerator/sharded_net.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::message_of;
using testing::run_ranks_shared;
using testing::ShardedNet;
using testing::ShardedNetOptions;

FullyShardedDataParallelPlugin plugin_with(FullParametersHome home) {
  auto plugin = testing::wrapping_blocks();
  plugin.full_parameters = home;
  return plugin;
}

// A rank that trains a sharded net.
struct Rank {
  Rank(const std::shared_ptr<Communicator>& comm, FullParametersHome home)
      : accelerator({.fsdp_plugin = plugin_with(home), .communicator = comm}) {}

  [[nodiscard]] at::Tensor loss() { return model(x, false).square().mean(); }
  void step() {
    accelerator.backward(loss());
    optimizer.step();
    optimizer.zero_grad();
  }
  [[nodiscard]] int index() const { return accelerator.process_index(); }

  Accelerator accelerator;
  ShardedNet net{ShardedNetOptions{}};
  torch::optim::SGD sgd{net->parameters(), 0.1};
  Prepared<ShardedNet> model = accelerator.prepare(net);
  AcceleratedOptimizer optimizer = accelerator.prepare(sgd);
  at::Tensor x = torch::ones({2, ShardedNet::Impl::kWidth});
};

struct Place {
  Engine engine;
  FullParametersHome home;
  std::string name;
};
void PrintTo(const Place& place, std::ostream* out) {
  *out << place.name;
}

class ShardedMisuse : public ::testing::TestWithParam<Place> {
 protected:
  void on_two_ranks(const std::function<void(Rank&)>& body) {
    run_ranks_shared(2,
                     [&](const std::shared_ptr<Communicator>& comm) {
                       Rank rank(comm, GetParam().home);
                       body(rank);
                     },
                     {.engine = GetParam().engine});
  }
  [[nodiscard]] bool is_one_sided() const { return GetParam().engine == Engine::shared_memory; }
  [[nodiscard]] bool gathers() const { return GetParam().home == FullParametersHome::gathered; }
};

void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, message);
}

TEST_P(ShardedMisuse, AClassThatIsNotThereIsNamed) {
  run_ranks_shared(2,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     auto plugin = plugin_with(GetParam().home);
                     plugin.transformer_cls_names_to_wrap = {{"BertLayer"}};
                     Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
                     ShardedNet net{ShardedNetOptions{}};
                     expect_says(message_of<Error>([&] { (void)accelerator.prepare(net); }),
                                 {"BertLayer", "Block"});
                   },
                   {.engine = GetParam().engine});
}

TEST_P(ShardedMisuse, AnOptimizerThatNeedsWholeParametersIsRefused) {
  on_two_ranks([](Rank& rank) {
    torch::optim::LBFGS lbfgs(rank.net->parameters());
    expect_says(message_of<UsageError>([&] { (void)rank.accelerator.prepare(lbfgs); }),
                {"LBFGS", "register_elementwise_optimizer"});
  });
}

TEST_P(ShardedMisuse, AnUnpreparedOptimizerIsToldWhereTheGradientsAre) {
  on_two_ranks([this](Rank& rank) {
    torch::optim::SGD stranger(rank.net->parameters(), 0.1);
    rank.accelerator.backward(rank.loss());
    // What it reads first is the marker, or the parameter that it is about to change.
    expect_says(message_of<c10::Error>([&] { stranger.step(); }),
                {gathers() ? "was about to change parameters" : "lie in shards"});
  });
}

TEST_P(ShardedMisuse, GradientsThatNobodyTakesAreAnErrorInTheSecondStep) {
  run_ranks_shared(2,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     Accelerator accelerator(
                         {.fsdp_plugin = plugin_with(GetParam().home), .communicator = comm});
                     ShardedNet net{ShardedNetOptions{}};
                     auto model = accelerator.prepare(net);
                     const auto x = torch::ones({2, ShardedNet::Impl::kWidth});
                     const auto step = [&] { accelerator.backward(model(x, false).sum()); };
                     step();
                     expect_says(message_of<UsageError>(step),
                                 {"head_weight", "no prepared optimizer"});
                   },
                   {.engine = GetParam().engine});
}

TEST_P(ShardedMisuse, AModuleThatWasConvertedIsNoticed) {
  on_two_ranks([](Rank& rank) {
    rank.step();
    {
      const auto whole = rank.model.summon_full_params({.writeback = false});
    }
    rank.net->blocks->at(0)->up->weight.set_data(torch::zeros({15, 7}));
    expect_says(message_of<UsageError>([&] { rank.step(); }),
                {"block0.up.weight", "unit 'block0'", "rank " + std::to_string(rank.index())});
  });
}

TEST_P(ShardedMisuse, AParameterThatWasChangedInPlaceIsNoticed) {
  on_two_ranks([this](Rank& rank) {
    const torch::NoGradGuard no_grad;
    auto& weight = rank.net->blocks->at(0)->up->weight;
    if (gathers()) {
      expect_says(message_of<c10::Error>([&] { weight.mul_(2); }),
                  {"about to change", "block0", "rank " + std::to_string(rank.index())});
      return;
    }
    rank.accelerator.wait_for_everyone();
    weight.mul_(1);
    expect_says(message_of<UsageError>([&] { rank.step(); }),
                {"block0.up.weight", "unit 'block0'", "rank " + std::to_string(rank.index())});
  });
}

TEST_P(ShardedMisuse, OneRankMayLookAtAParameterWhereOthersNeedNotTakePart) {
  on_two_ranks([this](Rank& rank) {
    rank.step();
    const auto norm = [&] { return rank.net->blocks->at(1)->up->weight.norm().item<float>(); };
    if (is_one_sided()) {
      if (rank.index() == 0) {
        EXPECT_GT(norm(), 0);
      }
    } else if (rank.index() == 0) {
      expect_says(message_of<c10::Error>([&] { (void)norm(); }),
                  {"block1", "rank 0", "summon_full_params"});
    }
    rank.step();
  });
}

TEST_P(ShardedMisuse, TrainAndEvalMayAlternate) {
  on_two_ranks([](Rank& rank) {
    for (int i = 0; i < 4; ++i) {
      rank.model.train();
      rank.step();
      rank.model.eval();
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(rank.loss().isfinite().item<bool>());
    }
  });
}

// The same on all ranks, in forward: the next step is as if nothing had been.
TEST_P(ShardedMisuse, AnExceptionInForwardLeavesAUsableModel) {
  on_two_ranks([](Rank& rank) {
    rank.step();
    const auto good = std::exchange(rank.x, torch::ones({2, 3}));
    EXPECT_THROW((void)rank.loss(), c10::Error);
    rank.x = good;
    for (int i = 0; i < 2; ++i) rank.step();
    EXPECT_TRUE(rank.loss().isfinite().item<bool>());
  });
}

struct Throws : torch::autograd::Function<Throws> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    throw std::runtime_error("rank 1 ran out of luck");
  }
};

TEST_P(ShardedMisuse, AnExceptionInTheBackwardOfOneRankReachesTheOthers) {
  on_two_ranks([](Rank& rank) {
    rank.step();
    auto loss = rank.loss();
    if (rank.index() == 1) loss = Throws::apply(loss);
    try {
      rank.accelerator.backward(loss);
      FAIL() << "rank " << rank.index() << " went on";
    } catch (const CommError& error) {
      EXPECT_EQ(rank.index(), 0);
      expect_says(describe(error), {"ran out of luck"});
    } catch (const std::exception& error) {
      EXPECT_EQ(rank.index(), 1) << error.what();
    }
  });
}

TEST_P(ShardedMisuse, ARankThatLeavesEarlyIsAnErrorForTheOthers) {
  on_two_ranks([](Rank& rank) {
    rank.step();
    if (rank.index() == 1) return;
    EXPECT_THROW(for (int i = 0; i < 3; ++i) rank.step(), CommError);
  });
}

TEST_P(ShardedMisuse, ABackwardPastTheAcceleratorIsRefused) {
  on_two_ranks([](Rank& rank) {
    const auto loss = rank.loss();
    expect_says(message_of<UsageError>([&] { loss.backward(); }), {"accelerator.backward(loss)"});
  });
}

TEST_P(ShardedMisuse, ACallInsideSummonIsRefused) {
  on_two_ranks([](Rank& rank) {
    const auto whole = rank.model.summon_full_params({.writeback = false});
    EXPECT_GT(rank.net->head_weight.norm().item<float>(), 0);
    expect_says(message_of<UsageError>([&] { (void)rank.loss(); }), {"summon_full_params"});
  });
}

TEST_P(ShardedMisuse, AParameterThatIsUnfrozenLaterIsNoticed) {
  run_ranks_shared(2,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     Accelerator accelerator(
                         {.fsdp_plugin = plugin_with(GetParam().home), .communicator = comm});
                     ShardedNet net(ShardedNetOptions{.frozen = true});
                     auto model = accelerator.prepare(net);
                     for (auto& parameter : net->blocks->at(1)->parameters())
                       parameter.requires_grad_(true);
                     const auto x = torch::ones({2, ShardedNet::Impl::kWidth});
                     expect_says(message_of<UsageError>([&] { (void)model(x, false); }),
                                 {"unfrozen after prepare()", "block1", "rank"});
                   },
                   {.engine = GetParam().engine});
}

TEST_P(ShardedMisuse, AModuleThatIsShardedAlreadyIsRefused) {
  on_two_ranks([this](Rank& rank) {
    Accelerator second({.fsdp_plugin = plugin_with(GetParam().home),
                        .communicator = rank.model.core()->parallel().communicator()});
    expect_says(message_of<UsageError>([&] { (void)second.prepare(rank.net); }),
                {"sharded already", "free_memory()"});
  });
}

TEST_P(ShardedMisuse, ValuesOfAModelThatIsGoneAreAnErrorNotACrash) {
  on_two_ranks([](Rank& rank) {
    rank.accelerator.wait_for_everyone();
    ShardedNet other{ShardedNetOptions{}};
    {
      auto model = rank.accelerator.prepare(other);
    }
    const at::Tensor& weight = other->blocks->at(0)->up->weight;
    EXPECT_THROW((void)weight.clone(), c10::Error);
    EXPECT_THROW((void)weight.norm(), c10::Error);
    rank.accelerator.wait_for_everyone();
  });
}

TEST_P(ShardedMisuse, TensorsOverOneMemoryInTwoUnitsAreRefused) {
  run_ranks_shared(2,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     Accelerator accelerator(
                         {.fsdp_plugin = plugin_with(GetParam().home), .communicator = comm});
                     ShardedNet net{ShardedNetOptions{}};
                     net->blocks->at(0)->up->weight.set_data(net->blocks->at(2)->up->weight);
                     expect_says(message_of<UsageError>([&] { (void)accelerator.prepare(net); }),
                                 {"block0.up.weight", "block2.up.weight", "over the same memory"});
                   },
                   {.engine = GetParam().engine});
}

// One process adds both gradients to the one memory; so do ranks that have parts of it.
TEST_P(ShardedMisuse, TensorsOverOneMemoryInOneUnitAreTrainedAsOne) {
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
  run_ranks_shared(2,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     Accelerator accelerator(
                         {.fsdp_plugin = plugin_with(GetParam().home), .communicator = comm});
                     EXPECT_LT((train(accelerator) - expected).abs().max().item<double>(), 1e-5);
                   },
                   {.engine = GetParam().engine});
}

TEST_P(ShardedMisuse, EvaluationUnderInferenceModeLeavesTrainingAsItWas) {
  on_two_ranks([](Rank& rank) {
    rank.step();
    {
      const c10::InferenceMode inference;
      EXPECT_TRUE(rank.loss().isfinite().item<bool>());
    }
    rank.step();
    EXPECT_TRUE(rank.loss().isfinite().item<bool>());
  });
}

// An optimizer of the user's that takes a closure as often as it likes.
struct Plain : torch::optim::SGD {
  using SGD::SGD;
};

TEST_P(ShardedMisuse, AStepWithAClosureReachesAllRanks) {
  register_elementwise_optimizer<Plain>();
  on_two_ranks([](Rank& rank) {
    const auto loss = [&] { return rank.loss().item<double>(); };
    torch::optim::SGDOptions options(0.1);
    Plain plain(rank.net->parameters(), options);
    auto optimizer = rank.accelerator.prepare(plain);
    const double before = loss();
    optimizer.step([&] {
      optimizer.zero_grad();
      const auto value = rank.loss();
      rank.accelerator.backward(value);
      return value;
    });
    EXPECT_LT(loss(), before);
    rank.accelerator.wait_for_everyone();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Places, ShardedMisuse,
    ::testing::Values(Place{Engine::gloo, FullParametersHome::gathered, "Collective"},
                      Place{Engine::shared_memory, FullParametersHome::gathered, "Windows"},
                      Place{Engine::shared_memory, FullParametersHome::shared_pages, "Pages"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace accelerate
