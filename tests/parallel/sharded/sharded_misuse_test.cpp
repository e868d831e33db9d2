// What users do to sharded models by mistake: every rank gets a sentence, and none waits for ever.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "accelerate/accelerate.h"
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

class ShardedMisuse : public testing::TwoShardedRanks {};

TEST_P(ShardedMisuse, AClassThatIsNotThereIsNamed) {
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    auto plugin = plugin_of(GetParam());
    plugin.transformer_cls_names_to_wrap = {{"BertLayer"}};
    Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
    ShardedNet net{ShardedNetOptions{}};
    expect_says(message_of<Error>([&] { (void)accelerator.prepare(net); }), {"BertLayer", "Block"});
  });
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
    expect_says(
        message_of<c10::Error>([&] { stranger.step(); }),
        {gathers() ? "was about to change" : "lie in shards", "hand the optimizer to prepare()"});
  });
}

TEST_P(ShardedMisuse, GradientsThatNobodyTakesAreAnErrorInTheSecondStep) {
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = plugin_of(GetParam()), .communicator = comm});
    ShardedNet net{ShardedNetOptions{}};
    auto model = accelerator.prepare(net);
    const auto x = torch::ones({2, ShardedNet::Impl::kWidth});
    const auto step = [&] { accelerator.backward(model(x, false).sum()); };
    step();
    expect_says(message_of<UsageError>(step), {"head_weight", "no prepared optimizer"});
  });
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
                  {"about to change", "'block0.up.weight' of unit 'block0'",
                   "rank " + std::to_string(rank.index())});
      return;
    }
    rank.accelerator.wait_for_everyone();
    weight.mul_(1);
    expect_says(message_of<UsageError>([&] { rank.step(); }),
                {"block0.up.weight", "unit 'block0'", "rank " + std::to_string(rank.index())});
  });
}

// As torch::load does it.
TEST_P(ShardedMisuse, MemoryThatALeafIsGivenInsideSummonIsWrittenBack) {
  on_two_ranks([](Rank& rank) {
    auto& a = rank.net->blocks->at(1)->up->weight;
    auto& b = rank.net->blocks->at(2)->up->weight;
    const auto values = [&] {
      const auto whole = rank.model.summon_full_params({.writeback = false});
      return std::pair(a.detach().clone(), b.detach().clone());
    };
    const auto [a_before, b_before] = values();
    {
      const auto whole = rank.model.summon_full_params();
      a.set_data(a_before * 2);
    }
    EXPECT_TRUE(values().first.equal(a_before * 2));
    {  // Each lies in the other's place.
      const auto whole = rank.model.summon_full_params();
      const auto data = a.data();
      a.set_data(b.data());
      b.set_data(data);
    }
    EXPECT_TRUE(values().first.equal(b_before));
    EXPECT_TRUE(values().second.equal(a_before * 2));
  });
}

TEST_P(ShardedMisuse, AConversionInsideSummonIsRefusedOnAllRanks) {
  on_two_ranks([](Rank& rank) {
    const auto convert = [&] {
      const auto whole = rank.model.summon_full_params();
      if (rank.index() == 1) rank.net->to(torch::kDouble);
    };
    expect_says(message_of<UsageError>(convert),
                {"rank 1", "head_weight", "Double", "before prepare()"});
    rank.step();
    EXPECT_TRUE(rank.loss().isfinite().item<bool>());
  });
}

TEST_P(ShardedMisuse, AStepInsideSummonIsRefused) {
  on_two_ranks([](Rank& rank) {
    rank.accelerator.backward(rank.loss());
    {
      const auto whole = rank.model.summon_full_params();
      expect_says(message_of<UsageError>([&] { rank.optimizer.step(); }), {"summon_full_params"});
    }
    rank.optimizer.step();
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
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = plugin_of(GetParam()), .communicator = comm});
    ShardedNet net(ShardedNetOptions{.frozen = true});
    auto model = accelerator.prepare(net);
    for (auto& parameter : net->blocks->at(1)->parameters()) parameter.requires_grad_(true);
    const auto x = torch::ones({2, ShardedNet::Impl::kWidth});
    expect_says(message_of<UsageError>([&] { (void)model(x, false); }),
                {"unfrozen after prepare()", "block1", "rank"});
  });
}

TEST_P(ShardedMisuse, AModuleThatIsShardedAlreadyIsRefused) {
  on_two_ranks([this](Rank& rank) {
    Accelerator second({.fsdp_plugin = plugin_of(GetParam()),
                        .communicator = rank.model.core()->parallel().engine->communicator()});
    expect_says(message_of<UsageError>([&] { (void)second.prepare(rank.net); }),
                {"sharded already", "free_memory()"});
  });
}

TEST_P(ShardedMisuse, AnotherAcceleratorRefusesTheOptimizerOfAShardedModel) {
  on_two_ranks([](Rank& rank) {
    Accelerator second({.communicator = rank.model.core()->parallel().engine->communicator()});
    torch::optim::SGD sgd(rank.net->parameters(), 0.1);
    expect_says(message_of<UsageError>([&] { (void)second.prepare(sgd); }),
                {"another Accelerator has sharded", "with one Accelerator"});
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

// They would cut other units, or wait for each other.
TEST_P(ShardedMisuse, RanksOfDifferentMindsAreTold) {
  using Plugin = FullyShardedDataParallelPlugin;
  struct Row {
    const char* says;
    std::function<void(Plugin&, ShardedNet&)> change;  // On rank 1.
  };
  const Row rows[] = {
      {"sync_module_states", [](auto& plugin, auto&) { plugin.sync_module_states = true; }},
      {"HYBRID_SHARD",
       [](auto& plugin, auto&) { plugin.sharding_strategy = ShardingStrategy::HYBRID_SHARD; }},
      {"BACKWARD_POST",
       [](auto& plugin, auto&) { plugin.backward_prefetch = BackwardPrefetch::BACKWARD_POST; }},
      {"block1", [](auto& plugin, auto&) { plugin.ignored_modules = {{"block1"}}; }},
      {"tied to head_weight",
       [](auto&, auto& net) { net->head_weight.set_data(net->first->weight); }}};
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    for (const auto& [says, change] : rows) {
      auto plugin = plugin_of(GetParam());
      ShardedNet net{ShardedNetOptions{}};
      if (comm->rank() == 1) change(plugin, net);
      Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
      expect_says(message_of<Error>([&] { (void)accelerator.prepare(net); }), {says});
    }
  });
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

TEST_P(ShardedMisuse, WholeParametersMayGoUnderInferenceMode) {
  on_two_ranks([](Rank& rank) {
    for (const bool writeback : {false, true}) {
      {
        const c10::InferenceMode inference;
        const auto whole = rank.model.summon_full_params({.writeback = writeback});
        EXPECT_TRUE(rank.net->head_weight.norm().isfinite().item<bool>());
      }
      rank.step();
    }
  });
}

TEST_P(ShardedMisuse, AModuleThatChangedBeforeItIsPreparedAgainIsRefused) {
  on_two_ranks([](Rank& rank) {
    EXPECT_NO_THROW((void)rank.accelerator.prepare(rank.net));
    rank.net->register_parameter("late", torch::ones({2}));
    expect_says(message_of<UsageError>([&] { (void)rank.accelerator.prepare(rank.net); }),
                {"'late'", "put into the module", "free_memory()"});
  });
}

TEST_P(ShardedMisuse, AWriteToLocalParametersIsNoticed) {
  on_two_ranks([](Rank& rank) {
    rank.step();
    {
      const torch::NoGradGuard no_grad;
      for (auto& local : rank.model.local_parameters()) local.clamp_(-0.1, 0.1);
    }
    expect_says(message_of<UsageError>([&] { (void)rank.loss(); }),
                {"changed its shard of '", "summon_full_params"});
  });
}

struct SlowImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    if (inside) inside();
    return layer(x);
  }
  std::function<void()> inside;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(2, 2));
};
TORCH_MODULE(Slow);

TEST_P(ShardedMisuse, ACallFromAnotherThreadDuringOneIsRefusedWhereUnitsComeAndGo) {
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    auto plugin = plugin_of(GetParam());
    plugin.auto_wrap_policy = AutoWrapPolicy::NO_WRAP;
    Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
    Slow net;
    auto model = accelerator.prepare(net);
    const torch::NoGradGuard no_grad;
    std::string refusal;
    bool is_first = true;
    net->inside = [&] {
      if (!std::exchange(is_first, false)) return;
      std::jthread([&] {
        const torch::NoGradGuard no_grad_here;
        const auto call = [&] { (void)model(torch::ones({1, 2})); };
        if (!gathers()) {
          EXPECT_NO_THROW(call());
          return;
        }
        refusal = message_of<UsageError>(call);
      }).join();
    };
    EXPECT_NO_THROW((void)model(torch::ones({1, 2})));
    if (gathers()) expect_says(refusal, {"two threads", "shared_pages"});
  });
}

struct Experts : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return chosen(x); }
  torch::nn::Linear chosen = register_module("chosen", torch::nn::Linear(2, 2));
  torch::nn::Linear spare = register_module("expert_of_nobody", torch::nn::Linear(2, 2));
};

// Cross validation prepares one model after the other.
TEST(ShardedWarnings, AnExpertThatNobodyChoseIsNamedOnceAndNotTakenForATie) {
  const testing::LogCapture log;
  const auto body = [](const std::shared_ptr<Communicator>& comm) {
    for (int fold = 0; fold < 2; ++fold) {
      Accelerator accelerator(
          {.fsdp_plugin = FullyShardedDataParallelPlugin{}, .communicator = comm});
      Experts net;
      auto model = accelerator.prepare(net);
      accelerator.backward(model(torch::ones({1, 2})).sum());
    }
  };
  testing::run_ranks_shared(2, body, {.engine = testing::Engine::shared_memory});
  auto lines = log.lines();
  std::erase_if(lines, [](const auto& line) { return line.find("no rank") == line.npos; });
  ASSERT_EQ(lines.size(), 1U);
  expect_says(lines.front(), {"expert_of_nobody.weight", "an expert that nobody chose"});
  EXPECT_LT(lines.front().find("nobody chose"), lines.front().find("tied"));
}

INSTANTIATE_TEST_SUITE_P(Places, ShardedMisuse, testing::sharded_places(), testing::kNameOfPlace);

}  // namespace
}  // namespace accelerate
