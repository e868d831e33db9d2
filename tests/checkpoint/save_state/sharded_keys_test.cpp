// What each key of fsdp_config does to a sharded model: docs/config_keys.md names these tests.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/parallel/inspection.h"
#include "tests/parallel/sharded/sharded_net.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::run_ranks_shared;
using testing::ShardedNet;
using testing::ShardedNetOptions;
using Plugin = FullyShardedDataParallelPlugin;
using Events = std::vector<std::string>;

std::string word_of(const ShardEvent& event) {
  constexpr const char* kWords[] = {"gather ", "prefetch ", "release ", "reduce "};
  return kWords[static_cast<int>(event.kind)] + (event.unit.empty() ? "root" : event.unit);
}

// What happened to units in the third step, when the orders of forward and backward are known.
struct KeysTrace {
  Events forward, backward;
  std::size_t slice_bytes = 0;
};

Events only(const Events& events, const std::string& kind) {
  Events found;
  for (const auto& event : events)
    if (event.starts_with(kind + " ")) found.push_back(event.substr(kind.size() + 1));
  return found;
}

Plugin blocks_gathered() {
  Plugin plugin;
  plugin.auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  plugin.transformer_cls_names_to_wrap = {{"Block"}};
  plugin.full_parameters = FullParametersHome::gathered;
  return plugin;
}

// Of rank 0, with four blocks.
KeysTrace trace_of(const Plugin& plugin, int ranks = 2) {
  KeysTrace trace;
  run_ranks_shared(
      ranks,
      [&](const std::shared_ptr<Communicator>& comm) {
        Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
        ShardedNet net(ShardedNetOptions{.blocks = 4});
        torch::optim::SGD sgd(net->parameters(), 0.1);
        auto [model, optimizer] = accelerator.prepare(net, sgd);
        auto& engine = *model.core()->parallel().inspection;
        Events events;
        engine.set_observer([&](const ShardEvent& event) { events.push_back(word_of(event)); });
        const auto x = torch::ones({2, ShardedNet::Impl::kWidth});
        for (int step = 0; step < 3; ++step) {
          events.clear();
          const auto loss = model(x, false).square().mean();
          const Events forward = std::exchange(events, {});
          accelerator.backward(loss);
          if (comm->rank() == 0) trace = {forward, events};
          optimizer.step();
          optimizer.zero_grad();
        }
        if (comm->rank() == 0) trace.slice_bytes = engine.memory().slice_bytes;
        engine.set_observer({});
      },
      {.engine = Engine::gloo});
  return trace;
}

const Events kAll{"root", "block0", "block1", "block2", "block3"};

// --- activations ---------------------------------------------------------------------------------

// A unit comes when its forward is computed again, and stays for its backward.
TEST(ShardedKeys, ActivationCheckpointingRecomputesTheUnits) {
  const auto plain = trace_of(blocks_gathered());
  auto plugin = blocks_gathered();
  plugin.activation_checkpointing = true;
  const auto again = trace_of(plugin);
  EXPECT_EQ(again.forward, plain.forward);
  EXPECT_EQ(only(again.backward, "gather"), only(plain.backward, "gather"));
  EXPECT_EQ(only(again.backward, "reduce"), only(plain.backward, "reduce"));
  Accelerator accelerator({.cpu = true, .fsdp_plugin = plugin});
  ShardedNet net(ShardedNetOptions{.blocks = 4});
  auto model = accelerator.prepare(net);
  EXPECT_EQ(model.core()->parallel().recompute->units(),
            (Events{"block0", "block1", "block2", "block3"}));
}

// --- units and when they are there ---------------------------------------------------------------

TEST(ShardedKeys, ShardingStrategySaysHowOftenAUnitIsGathered) {
  using enum ShardingStrategy;
  for (const auto strategy : {FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD, HYBRID_SHARD_ZERO2}) {
    auto plugin = blocks_gathered();
    plugin.sharding_strategy = strategy;
    const bool is_hybrid = strategy == HYBRID_SHARD || strategy == HYBRID_SHARD_ZERO2;
    if (is_hybrid) plugin.shard_group_size = 2;
    const auto trace = trace_of(plugin, is_hybrid ? 4 : 2);
    EXPECT_EQ(only(trace.forward, "gather"), kAll) << to_string(strategy);
    // The last two are still there when backward begins.
    const bool again = strategy == FULL_SHARD || strategy == HYBRID_SHARD;
    EXPECT_EQ(only(trace.backward, "gather"), again ? (Events{"block1", "block0"}) : Events{})
        << to_string(strategy);
  }
}

TEST(ShardedKeys, ShardingStrategySaysHowManyRanksShareAModel) {
  using enum ShardingStrategy;
  const std::pair<ShardingStrategy, int> cases[] = {{FULL_SHARD, 4},
                                                    {SHARD_GRAD_OP, 4},
                                                    {NO_SHARD, 1},
                                                    {HYBRID_SHARD, 2},
                                                    {HYBRID_SHARD_ZERO2, 2}};
  auto plugin = blocks_gathered();
  plugin.sharding_strategy = NO_SHARD;
  const auto whole = static_cast<double>(trace_of(plugin).slice_bytes);
  for (const auto& [strategy, parts] : cases) {
    plugin.sharding_strategy = strategy;
    plugin.shard_group_size = strategy == HYBRID_SHARD || strategy == HYBRID_SHARD_ZERO2 ? 2 : 0;
    const auto found = static_cast<double>(trace_of(plugin, 4).slice_bytes);
    const double padding = 5 * 2 * 32 * 4;  // Of five units, each for two ranks more.
    EXPECT_NEAR(found, whole / parts, padding) << to_string(strategy);
  }
}

TEST(ShardedKeys, ReshardAfterForwardOfVersionTwoSaysHowOftenAUnitIsGathered) {
  for (const bool reshards : {true, false}) {
    auto plugin = blocks_gathered();
    plugin.fsdp_version = 2;
    plugin.reshard_after_forward = reshards;
    const auto trace = trace_of(plugin);
    EXPECT_EQ(only(trace.forward, "gather"), kAll);
    EXPECT_EQ(only(trace.backward, "gather"), reshards ? (Events{"block1", "block0"}) : Events{});
  }
}

TEST(ShardedKeys, BackwardPrefetchSaysWhenTheNextUnitIsAskedFor) {
  using enum BackwardPrefetch;
  auto plugin = blocks_gathered();
  plugin.backward_prefetch = NO_PREFETCH;
  const auto without = trace_of(plugin);
  EXPECT_EQ(only(without.backward, "prefetch"), Events{});

  // Before and after the gradients of block 1.
  plugin.backward_prefetch = BACKWARD_PRE;
  EXPECT_EQ(
      trace_of(plugin).backward,
      (Events{"reduce block3", "release block3", "gather block1", "prefetch block0",
              "reduce block2", "release block2", "gather block0", "reduce block1", "reduce block0",
              "reduce root", "release root", "release block0", "release block1"}));
  plugin.backward_prefetch = BACKWARD_POST;
  EXPECT_EQ(trace_of(plugin).backward,
            (Events{"prefetch block1", "reduce block3", "release block3", "gather block1",
                    "prefetch block0", "reduce block2", "release block2", "gather block0",
                    "reduce block1", "reduce block0", "reduce root", "release root",
                    "release block0", "release block1"}));
}

// Where no gradients travel either.
TEST(ShardedKeys, BackwardPostPrefetchesInMicroBatchesThatOnlyAccumulate) {
  const auto body = [](const std::shared_ptr<Communicator>& comm) {
    auto plugin = blocks_gathered();
    plugin.backward_prefetch = BackwardPrefetch::BACKWARD_POST;
    Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
    ShardedNet net(ShardedNetOptions{.blocks = 4});
    auto model = accelerator.prepare(net);
    Events events;
    model.core()->parallel().inspection->set_observer(
        [&](const ShardEvent& event) { events.push_back(word_of(event)); });
    for (int pass = 0; pass < 2; ++pass) {
      const auto no_sync = accelerator.no_sync(model);
      const auto loss = model(torch::ones({2, ShardedNet::Impl::kWidth}), false).sum();
      events.clear();
      accelerator.backward(loss);
    }
    EXPECT_EQ(only(events, "prefetch"), (Events{"block1", "block0"}));
    model.core()->parallel().inspection->set_observer({});
  };
  run_ranks_shared(2, body, {.engine = Engine::gloo});
}

TEST(ShardedKeys, ForwardPrefetchAsksForTheNextUnitWhileOneComputes) {
  auto plugin = blocks_gathered();
  EXPECT_EQ(only(trace_of(plugin).forward, "prefetch"), Events{});
  plugin.forward_prefetch = true;
  EXPECT_EQ(trace_of(plugin).forward,
            (Events{"gather root", "prefetch block0", "gather block0", "prefetch block1",
                    "gather block1", "prefetch block2", "release block0", "gather block2",
                    "prefetch block3", "release block1", "gather block3"}));
}

TEST(ShardedKeys, VersionTwoPrefetchesInBackwardByItself) {
  auto plugin = blocks_gathered();
  EXPECT_EQ(only(trace_of(plugin).backward, "prefetch"), Events{});
  plugin.fsdp_version = 2;
  EXPECT_NE(only(trace_of(plugin).backward, "prefetch"), Events{});
}

TEST(ShardedKeys, WrapPolicySaysWhatIsGatheredTogether) {
  using enum AutoWrapPolicy;
  auto plugin = blocks_gathered();
  const auto units = [&] { return only(trace_of(plugin).forward, "gather"); };
  EXPECT_EQ(units(), kAll);
  plugin.transformer_cls_names_to_wrap = {{"Block", "Linear"}};
  EXPECT_EQ(units().size(), 1 + 4 * 3 + 1);  // Each block's norm, its two layers, and "first".
  plugin.transformer_cls_names_to_wrap = std::nullopt;
  plugin.auto_wrap_policy = NO_WRAP;
  EXPECT_EQ(units(), Events{"root"});
  plugin.auto_wrap_policy = SIZE_BASED_WRAP;
  EXPECT_EQ(units(), Events{"root"});  // Of any size: no policy, as in the original.
  plugin.min_num_params = 200;         // A block has 246, its layers 120 and 112.
  EXPECT_EQ(units(), kAll);
  plugin.min_num_params = 115;
  EXPECT_EQ(units(), (Events{"root", "block0", "block0.up", "block1", "block1.up", "block2",
                             "block2.up", "block3", "block3.up"}));
}

// --- values at the start -------------------------------------------------------------------------

struct WithBuffersImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    return ignored(norm(layer(x)) + table.to(x.scalar_type()));
  }
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(3, 3));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(3));
  struct IgnoredImpl : torch::nn::Module {
    at::Tensor forward(const at::Tensor& x) { return x * scale.to(x.scalar_type()) + offset; }
    at::Tensor scale = register_buffer("scale", torch::ones({3}));
    at::Tensor offset = register_parameter("offset", torch::ones({3}));
  };
  IgnoredImpl& ignored_part() { return *ignored_; }
  at::Tensor ignored(const at::Tensor& x) { return ignored_->forward(x); }
  at::Tensor table = register_buffer("table", torch::ones({3}));
  at::Tensor count = register_buffer("count", torch::ones({3}, torch::kLong));

 private:
  std::shared_ptr<IgnoredImpl> ignored_ =
      register_module("ignored", std::make_shared<IgnoredImpl>());
};
TORCH_MODULE(WithBuffers);

using Body = std::function<void(Accelerator&, WithBuffers&, Prepared<WithBuffers>&)>;

// Before prepare() all values are the rank's number plus 1.
void on_two_ranks(const Plugin& plugin, const Body& body) {
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
    WithBuffers net;
    {
      const torch::NoGradGuard no_grad;
      for (const auto& [name, tensor] : state_dict(view_of(*net))) tensor.fill_(comm->rank() + 1);
    }
    auto model = accelerator.prepare(net);
    body(accelerator, net, model);
  });
}

TEST(ShardedKeys, SyncModuleStatesTakesRankZerosValues) {
  for (const bool sync : {false, true}) {
    Plugin plugin;
    plugin.sync_module_states = sync;
    on_two_ranks(plugin,
                 [&](Accelerator& accelerator, WithBuffers& net, Prepared<WithBuffers>& model) {
                   const int own = accelerator.process_index() + 1;
                   for (const auto& part : model.local_parameters()) {
                     EXPECT_TRUE((part == (sync ? 1 : own)).all().item<bool>());
                   }
                   EXPECT_EQ(net->table[0].item<int>(), sync ? 1 : own);
                   EXPECT_EQ(net->norm->running_mean[0].item<int>(), sync ? 1 : own);
                 });
  }
}

TEST(ShardedKeys, IgnoredModulesStayWholeAndEachRanksOwn) {
  Plugin plugin;
  plugin.ignored_modules = {{"ignored"}};
  plugin.sync_module_states = true;
  on_two_ranks(
      plugin, [](Accelerator& accelerator, WithBuffers& net, Prepared<WithBuffers>& model) {
        const auto& offset = net->ignored_part().offset;
        EXPECT_TRUE(at::equal(offset.detach(), at::full({3}, accelerator.process_index() + 1.0F)));
        EXPECT_FALSE(model.core()->parallel().parts->shard_of(offset));
        accelerator.backward(model(torch::ones({2, 3})).sum() * (accelerator.process_index() + 1));
        EXPECT_EQ(offset.grad()[0].item<int>(), 2 * (accelerator.process_index() + 1));
      });
}

// --- types ---------------------------------------------------------------------------------------

Plugin with_types(const MixedPrecisionPolicy& policy, int version = 1) {
  Plugin plugin;
  plugin.fsdp_version = version;
  plugin.mixed_precision_policy = policy;
  plugin.ignored_modules = {{"ignored"}};
  return plugin;
}

TEST(ShardedKeys, BufferTypeIsThatOfFloatingBuffersOutsideOfBatchNorms) {
  on_two_ranks(with_types({.buffer_dtype = DType::bf16}),
               [](Accelerator&, WithBuffers& net, Prepared<WithBuffers>& model) {
                 EXPECT_EQ(net->table.scalar_type(), at::kBFloat16);
                 EXPECT_EQ(net->count.scalar_type(), at::kLong);
                 EXPECT_EQ(net->norm->running_mean.scalar_type(), at::kFloat);
                 EXPECT_EQ(net->ignored_part().scale.scalar_type(), at::kFloat);
                 EXPECT_EQ(model(torch::ones({2, 3})).scalar_type(), at::kFloat);
               });
}

TEST(ShardedKeys, ParameterTypeIsThatOfForwardAndNotOfTheOptimizer) {
  on_two_ranks(with_types({.param_dtype = DType::bf16}),
               [](Accelerator&, WithBuffers& net, Prepared<WithBuffers>& model) {
                 EXPECT_EQ(net->layer->weight.scalar_type(), at::kBFloat16);
                 EXPECT_EQ(net->norm->weight.scalar_type(), at::kFloat);
                 for (const auto& part : model.local_parameters())
                   EXPECT_EQ(part.scalar_type(), at::kFloat);
               });
}

TEST(ShardedKeys, OutputTypeOfVersionTwoIsThatOfWhatTheModelReturns) {
  const std::pair<std::optional<DType>, at::ScalarType> cases[] = {
      {std::nullopt, at::kFloat}, {DType::bf16, at::kBFloat16}, {DType::f16, at::kHalf}};
  for (const auto& [asked, expected] : cases) {
    on_two_ranks(with_types({.output_dtype = asked}, 2),
                 [&](Accelerator&, WithBuffers&, Prepared<WithBuffers>& model) {
                   EXPECT_EQ(model(torch::ones({2, 3})).scalar_type(), expected);
                 });
  }
}

// Gradients 1 and 2^-10, each of which bf16 holds, and their mean, which it does not.
TEST(ShardedKeys, ReduceTypeIsThatInWhichGradientsTravel) {
  const double exact = 0.5 + std::ldexp(1, -11);
  const std::pair<DType, double> cases[] = {{DType::f32, exact}, {DType::bf16, 0.5}};
  for (const auto& [type, expected] : cases) {
    run_ranks_shared(2,
                     [&](const std::shared_ptr<Communicator>& comm) {
                       Plugin plugin;
                       plugin.mixed_precision_policy = MixedPrecisionPolicy{.reduce_dtype = type};
                       Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
                       torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
                       auto model = accelerator.prepare(net);
                       const double x = comm->rank() == 0 ? 1 : std::ldexp(1, -10);
                       accelerator.backward(model(torch::full({1, 1}, x)).sum());
                       const auto gradient = model.local_parameters().front().grad();
                       if (comm->rank() == 0) {
                         EXPECT_EQ(gradient.item<double>(), expected);
                       }
                     },
                     {.engine = Engine::gloo});
  }
}

// --- nothing to be seen --------------------------------------------------------------------------

TEST(ShardedKeys, WhatIsForGpusOrForHooksOfPythonChangesNothing) {
  const auto usual = trace_of(blocks_gathered());
  const std::pair<const char*, std::function<void(Plugin&)>> cases[] = {
      {"cpu_offload", [](Plugin& plugin) { plugin.cpu_offload = true; }},
      {"limit_all_gathers", [](Plugin& plugin) { plugin.limit_all_gathers = false; }},
      {"use_orig_params", [](Plugin& plugin) { plugin.use_orig_params = true; }},
  };
  for (const auto& [what, change] : cases) {
    auto plugin = blocks_gathered();
    change(plugin);
    const auto trace = trace_of(plugin);
    EXPECT_EQ(trace.forward, usual.forward) << what;
    EXPECT_EQ(trace.backward, usual.backward) << what;
    EXPECT_EQ(trace.slice_bytes, usual.slice_bytes) << what;
  }
}

}  // namespace
}  // namespace accelerate
