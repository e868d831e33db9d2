// The memory that sharded training takes: the formulas of docs/costs.md against what the engine
// counts, and what it counts against what the system says.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/base/heap.h"
#include "accelerate/parallel/inspection.h"
#include "accelerate/tensor/construction/init_on_device.h"
#include "tests/support/proportional_memory.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::run_ranks_shared;

// Layers, each of which is a unit, after a root that has weights of its own.
struct StackImpl : torch::nn::Module {
  explicit StackImpl(const std::vector<std::int64_t>& widths) {
    root = register_parameter("root", torch::full({widths.front(), widths.front()}, 0.01));
    for (std::size_t i = 1; i < widths.size(); ++i) {
      layers.push_back(register_module("layer" + std::to_string(i),
                                       torch::nn::Linear(widths[i - 1], widths[i])));
    }
  }
  at::Tensor forward(at::Tensor x) {
    x = at::linear(x, root);
    for (auto& layer : layers) x = torch::tanh(layer(x));
    return x;
  }
  at::Tensor root;
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Stack);

struct MemoryCase {
  std::string name;
  std::vector<std::int64_t> widths;
};

const std::vector<MemoryCase>& cases() {
  static const std::vector<MemoryCase> all{
      {"equal layers", std::vector<std::int64_t>(9, 64)},
      {"layers that grow", {16, 32, 64, 96, 128, 160, 192}},
      {"a large layer among small ones", {24, 24, 24, 200, 200, 24, 24, 24}},
      {"a large root", {160, 40, 40, 40, 40}},
      {"two layers", {48, 64, 80}},
  };
  return all;
}

// Elements, as docs/costs.md names them.
struct Sizes {
  double all = 0, root = 0, unit = 0, padding = 0;
  double largest = 0;  // Also of the root: of gradients it is a unit like the others.

  explicit Sizes(const std::vector<std::int64_t>& widths) {
    root = static_cast<double>(widths.front() * widths.front());
    all = root;
    for (std::size_t i = 1; i < widths.size(); ++i) {
      const auto numel = static_cast<double>((widths[i - 1] + 1) * widths[i]);
      unit = std::max(unit, numel);
      all += numel;
    }
    largest = std::max(unit, root);
    padding = 64.0 * (1 + 2 * static_cast<double>(widths.size() - 1));
  }
};

struct MemorySetting {
  ShardingStrategy strategy = ShardingStrategy::FULL_SHARD;
  FullParametersHome home = FullParametersHome::gathered;
  Engine engine = Engine::gloo;
  bool bf16 = false;
};

struct Found {
  double slices = 0, full = 0, gradients = 0;  // Bytes, gradients at most.
  double optimizer = 0;                        // Bytes of moments.
};

double bytes_of_moments(const torch::optim::Optimizer& adam) {
  std::size_t bytes = 0;
  for (const auto& [key, state] : adam.state()) {
    const auto& moments = static_cast<const torch::optim::AdamWParamState&>(*state);
    bytes += moments.exp_avg().nbytes() + moments.exp_avg_sq().nbytes();
  }
  return static_cast<double>(bytes);
}

FullyShardedDataParallelPlugin plugin_of(const MemorySetting& setting) {
  FullyShardedDataParallelPlugin plugin;
  plugin.sharding_strategy = setting.strategy;
  plugin.auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  plugin.transformer_cls_names_to_wrap = {{"Linear"}};
  plugin.backward_prefetch = BackwardPrefetch::BACKWARD_POST;
  plugin.forward_prefetch = true;
  plugin.full_parameters = setting.home;
  return plugin;
}

Found train(Accelerator& accelerator, Stack net, int steps) {
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(0.01));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  const auto x = torch::ones({2, net->root.size(0)});
  for (int step = 0; step < steps; ++step) {
    accelerator.backward(model(x).square().mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto memory = model.core()->parallel().inspection->memory();
  return {static_cast<double>(memory.slice_bytes), static_cast<double>(memory.peak_full_bytes),
          static_cast<double>(memory.peak_gradient_bytes), bytes_of_moments(adam)};
}

// Of each rank.
std::vector<Found> run(int ranks, const std::vector<std::int64_t>& widths,
                       const MemorySetting& setting) {
  std::vector<Found> found(static_cast<std::size_t>(ranks));
  run_ranks_shared(ranks,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     Accelerator accelerator({.mixed_precision = setting.bf16 ? MixedPrecision::bf16
                                                                              : MixedPrecision::no,
                                              .fsdp_plugin = plugin_of(setting),
                                              .communicator = comm});
                     const auto rank = static_cast<std::size_t>(comm->rank());
                     found[rank] = train(accelerator, Stack(widths), 4);
                   },
                   {.engine = setting.engine});
  return found;
}

void expect_within_gathered_bounds(int ranks, const MemoryCase& model,
                                   const MemorySetting& setting) {
  const Sizes n(model.widths);
  const double wide = sizeof(float), narrow = setting.bf16 ? 2 : 4;  // Of masters, of the rest.
  const bool keeps = setting.strategy == ShardingStrategy::SHARD_GRAD_OP;
  const double most = keeps ? n.all : n.root + 3 * n.unit;
  for (const auto& found : run(ranks, model.widths, setting)) {
    SCOPED_TRACE(model.name + ", " + std::to_string(ranks) + " ranks, " +
                 std::string(testing::to_string(setting.engine)));
    EXPECT_LE(found.slices, (n.all / ranks + n.padding) * wide);
    EXPECT_LE(found.full, (most + n.padding) * narrow);
    EXPECT_GE(found.full, (n.root + n.unit) * narrow);
    EXPECT_LE(found.gradients,
              (n.all / ranks + n.padding) * wide + (2 * n.largest + n.padding) * narrow);
    EXPECT_GE(found.gradients, n.all / ranks * wide);
    EXPECT_LE(found.optimizer, 2 * (n.all / ranks + n.padding) * wide);
  }
}

TEST(ShardedMemory, GatheredUnitsTakeTheSliceTheRootAndThreeUnits) {
  for (const auto& model : cases()) {
    for (const int ranks : {2, 4}) {
      for (const Engine engine : {Engine::gloo, Engine::shared_memory})
        expect_within_gathered_bounds(ranks, model, {.engine = engine});
    }
    expect_within_gathered_bounds(2, model, {.bf16 = true});
  }
}

TEST(ShardedMemory, UnitsThatStayAfterForwardTakeOneCopy) {
  for (const auto& model : cases())
    expect_within_gathered_bounds(2, model, {.strategy = ShardingStrategy::SHARD_GRAD_OP});
}

// Of all ranks together: one copy of parameters, gradients and moments, and what travels.
TEST(ShardedMemory, SharedPagesTakeOneCopyOnAHost) {
  for (const auto& model : cases()) {
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(model.name + ", " + std::to_string(ranks) + " ranks");
      const Sizes n(model.widths);
      const auto all =
          run(ranks, model.widths,
              {.home = FullParametersHome::shared_pages, .engine = Engine::shared_memory});
      double taken = all.front().full;  // All ranks map the same.
      for (const auto& found : all) taken += found.gradients + found.optimizer;
      EXPECT_GE(taken, 4 * n.all * sizeof(float));
      EXPECT_LE(taken, (4 * (n.all + ranks * n.padding) + ranks * 2 * n.largest) * sizeof(float));
    }
  }
}

// --- what the system says ------------------------------------------------------------------------

// What tensors that are gone have left behind is nobody's, and when all ranks have said so they
// look at the same moment.
double settled_set_size(Accelerator& accelerator) {
  return_freed_memory();
  accelerator.wait_for_everyone();
  const double size = testing::proportional_set_size();
  accelerator.wait_for_everyone();
  return size;
}

std::vector<std::int64_t> wide_layers() {
  const char* asked = std::getenv("ACCELERATE_TEST_PARAMETERS");
  const double parameters = asked == nullptr ? 48e6 : std::stod(asked);
  constexpr int kLayers = 11;  // And the root.
  const auto width = static_cast<std::int64_t>(std::sqrt(parameters / (kLayers + 1)));
  return std::vector<std::int64_t>(kLayers + 1, width);
}

RANK_MAIN(trains_a_wide_model) {
  const bool gathers = std::getenv("TEST_GATHERS") != nullptr;
  const MemorySetting setting{.home = gathers ? FullParametersHome::gathered
                                              : FullParametersHome::shared_pages};
  Accelerator accelerator({.fsdp_plugin = plugin_of(setting)});
  (void)train(accelerator, Stack(std::vector<std::int64_t>(3, 8)), 1);
  accelerator.free_memory();
  const double before = settled_set_size(accelerator);
  Stack net = [] {
    const auto scope = init_empty_weights();
    return Stack(wide_layers());
  }();
  const double without_memory = settled_set_size(accelerator);
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(0.01));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  accelerator.backward(model(torch::ones({1, net->root.size(0)})).square().mean());
  optimizer.step();
  const double after = settled_set_size(accelerator);
  const auto memory = model.core()->parallel().inspection->memory();
  // All ranks map the same pages, slices included.
  const double full = gathers
                          ? static_cast<double>(memory.full_bytes + memory.slice_bytes)
                          : static_cast<double>(memory.full_bytes) / accelerator.num_processes();
  std::printf("%.0f %.0f %.0f %zu %.0f\n", without_memory - before, after - before, full,
              memory.gradient_bytes, bytes_of_moments(adam));
  return 0;
}

struct HostMemory {
  double taken = 0, counted = 0;  // Bytes of all ranks together.
};

HostMemory memory_of_a_wide_model(int ranks, std::map<std::string, std::string> env) {
  HostMemory host;
  for (const auto& result :
       testing::run_processes(ranks, "trains_a_wide_model",
                              {.time_limit = std::chrono::minutes(4), .env = std::move(env)})) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    double empty = 0, mine = 0, full = 0, gradients = 0, moments = 0;
    EXPECT_EQ(std::sscanf(result.out.c_str(), "%lf %lf %lf %lf %lf", &empty, &mine, &full,
                          &gradients, &moments),
              5)
        << result.out;
    EXPECT_LT(empty, 4e6);  // Construction without memory.
    host.taken += mine;
    host.counted += full + gradients + moments;
  }
  return host;
}

// What a process has besides, and arenas ahead of what they need, weigh less the larger a model is.
double tolerance(const Sizes& n) {
  return n.all < 150e6 ? 0.15 : 0.1;
}

TEST(ShardedMemory, TheSystemSaysWhatTheEngineCountsOfPages) {
  for (const int ranks : {2, 4}) {
    const Sizes n(wide_layers());
    const double one_copy = 4 * n.all * sizeof(float);
    const auto host = memory_of_a_wide_model(ranks, {{"ACCELERATE_COMM", "shared_memory"}});
    std::printf("pages, %d ranks: counted %.0f MB, taken %.0f MB; one copy is %.0f MB\n", ranks,
                host.counted / 1e6, host.taken / 1e6, one_copy / 1e6);
    EXPECT_NEAR(host.taken, host.counted, tolerance(n) * host.counted) << ranks;
    EXPECT_LE(host.counted, 1.15 * one_copy + ranks * n.unit * sizeof(float));
  }
}

// Gloo's threads keep what a unit took that is smaller than what malloc gives back at once.
TEST(ShardedMemory, TheSystemSaysWhatTheEngineCountsOfGatheredUnits) {
  const Sizes n(wide_layers());
  for (const int ranks : {2, 4}) {
    for (const std::string comm : {"shared_memory", "gloo"}) {
      if (comm == "gloo" && n.all < 150e6) continue;
      const auto host =
          memory_of_a_wide_model(ranks, {{"ACCELERATE_COMM", comm}, {"TEST_GATHERS", "1"}});
      std::printf("%s, %d ranks: counted %.0f MB, taken %.0f MB\n", comm.c_str(), ranks,
                  host.counted / 1e6, host.taken / 1e6);
      EXPECT_NEAR(host.taken, host.counted, tolerance(n) * host.counted) << comm << ranks;
    }
  }
}

}  // namespace
}  // namespace accelerate
