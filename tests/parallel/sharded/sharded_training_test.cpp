// What ranks with a slice each train is what one process trains.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/sharded_net.h"
#include "tests/support/pairwise.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::run_ranks_shared;
using testing::ShardedNet;
using testing::ShardedNetOptions;

constexpr int kTrainedSteps = 20;

struct Recipe {
  std::string name;
  ShardedNetOptions net = {};
  int accumulation = 1;
  bool communicates_always = false;  // Within a window too.
  bool clips = false;
  bool adamw = false;  // With decay on matrices only; else SGD with momentum.
  bool every_other_step_branches = false;
  bool lists_tied_twice = false;  // To the optimizer, as Module::parameters() does.
  MixedPrecision precision = MixedPrecision::no;
  at::ScalarType dtype = at::kDouble;
};

struct Setting {
  ShardingStrategy strategy = ShardingStrategy::FULL_SHARD;
  FullParametersHome home = FullParametersHome::automatic;
  Engine engine = Engine::gloo;
  int ranks = 2;
};

void PrintTo(const Recipe& recipe, std::ostream* out) {
  *out << recipe.name;
}
void PrintTo(const Setting& setting, std::ostream* out) {
  *out << to_string(setting.strategy) << ", " << to_string(setting.home) << ", "
       << testing::to_string(setting.engine) << ", " << setting.ranks << " ranks";
}

using Weights = std::map<std::string, at::Tensor>;

FullyShardedDataParallelPlugin plugin_of(const Setting& setting) {
  auto plugin = testing::wrapping_blocks();
  plugin.sharding_strategy = setting.strategy;
  plugin.full_parameters = setting.home;
  const bool hybrid = setting.strategy == ShardingStrategy::HYBRID_SHARD ||
                      setting.strategy == ShardingStrategy::HYBRID_SHARD_ZERO2;
  if (hybrid) plugin.shard_group_size = 2;
  return plugin;
}

std::vector<at::Tensor> parameters_of(const Recipe& recipe, torch::nn::Module& net) {
  if (recipe.lists_tied_twice) return net.parameters();
  std::vector<at::Tensor> once;
  for (const auto& item : without_duplicates(view_of(net).parameters)) once.push_back(item.tensor);
  return once;
}

std::vector<torch::optim::OptimizerParamGroup> decayed_and_not(
    const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> matrices, others;
  for (const auto& parameter : parameters) {
    (parameter.dim() > 1 ? matrices : others).push_back(parameter);
  }
  const auto options = [](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(0.01).weight_decay(decay));
  };
  return {{matrices, options(0.1)}, {others, options(0.0)}};
}

std::unique_ptr<torch::optim::Optimizer> optimizer_for(const Recipe& recipe,
                                                       torch::nn::Module& net) {
  const auto parameters = parameters_of(recipe, net);
  if (recipe.adamw) {
    return std::make_unique<torch::optim::AdamW>(decayed_and_not(parameters),
                                                 torch::optim::AdamWOptions(0.01));
  }
  return std::make_unique<torch::optim::SGD>(parameters,
                                             torch::optim::SGDOptions(0.05).momentum(0.9));
}

Weights train(const Recipe& recipe, const std::shared_ptr<Communicator>& comm,
              const std::optional<FullyShardedDataParallelPlugin>& plugin) {
  Accelerator accelerator(
      {.mixed_precision = recipe.precision,
       .gradient_accumulation_plugin =
           GradientAccumulationPlugin{.num_steps = recipe.accumulation,
                                      .sync_each_batch = recipe.communicates_always},
       .ddp = {.find_unused_parameters = recipe.every_other_step_branches},
       .fsdp_plugin = plugin,
       .communicator = comm});
  ShardedNet net(recipe.net);
  net->to(recipe.dtype);
  auto inner = optimizer_for(recipe, *net);
  auto [model, optimizer] = accelerator.prepare(net, *inner);
  for (int step = 0; step < kTrainedSteps * recipe.accumulation; ++step) {
    const auto window = accelerator.accumulate(model);
    const bool takes_branch =
        recipe.net.has_branch && (!recipe.every_other_step_branches || step % 2 == 0);
    const auto x = testing::rows_of(step, *comm).to(recipe.dtype);
    const auto loss = (model(x, takes_branch) - x.flip(1)).square().mean();
    accelerator.backward(loss);
    if (recipe.clips && accelerator.sync_gradients()) {
      accelerator.clip_grad_norm_(model.parameters(), 0.05);
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto whole = model.summon_full_params({.writeback = false});
  Weights weights;
  for (const auto& item : net->named_parameters()) {
    weights[item.key()] = item.value().detach().clone();
  }
  return weights;
}

Weights train_sharded(const Recipe& recipe, const Setting& setting) {
  Weights of_last;
  run_ranks_shared(setting.ranks,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     auto weights = train(recipe, comm, plugin_of(setting));
                     if (comm->rank() == comm->size() - 1) of_last = std::move(weights);
                   },
                   {.engine = setting.engine});
  return of_last;
}

std::vector<Recipe> recipes() {
  return {
      {.name = "Plain"},
      {.name = "AdamW", .adamw = true},
      {.name = "Accumulates", .accumulation = 3, .adamw = true},
      {.name = "AccumulatesOverRanks", .accumulation = 2, .communicates_always = true},
      {.name = "Clips", .clips = true, .adamw = true},
      {.name = "Tied", .net = {.tied = true}},
      {.name = "TiedAndListedTwice", .net = {.tied = true}, .lists_tied_twice = true},
      {.name = "Frozen", .net = {.frozen = true}, .adamw = true},
      {.name = "Branches",
       .net = {.has_branch = true},
       .adamw = true,
       .every_other_step_branches = true},
      {.name = "Everything",
       .net = {.tied = true, .frozen = true, .has_branch = true},
       .accumulation = 2,
       .clips = true,
       .adamw = true,
       .every_other_step_branches = true},
      {.name = "Single", .clips = true, .adamw = true, .dtype = at::kFloat},
  };
}

std::vector<Setting> settings() {
  using enum ShardingStrategy;
  using enum FullParametersHome;
  return {
      {FULL_SHARD, gathered, Engine::gloo, 2},
      {FULL_SHARD, gathered, Engine::gloo, 3},
      {FULL_SHARD, gathered, Engine::shared_memory, 2},
      {FULL_SHARD, gathered, Engine::shared_memory, 4},
      {FULL_SHARD, gathered, Engine::hierarchy, 4},
      {FULL_SHARD, shared_pages, Engine::shared_memory, 2},
      {FULL_SHARD, shared_pages, Engine::shared_memory, 3},
      {FULL_SHARD, automatic, Engine::shared_memory, 4},
      {SHARD_GRAD_OP, gathered, Engine::gloo, 2},
      {SHARD_GRAD_OP, gathered, Engine::shared_memory, 3},
      {NO_SHARD, automatic, Engine::gloo, 3},
      {NO_SHARD, gathered, Engine::shared_memory, 2},
      {HYBRID_SHARD, gathered, Engine::gloo, 4},
      {HYBRID_SHARD, shared_pages, Engine::shared_memory, 4},
      {HYBRID_SHARD_ZERO2, gathered, Engine::shared_memory, 4},
  };
}

class ShardedTraining : public ::testing::TestWithParam<std::tuple<Recipe, Setting>> {};

TEST_P(ShardedTraining, EndsInTheWeightsOfOneProcess) {
  const auto& [recipe, setting] = GetParam();
  const Weights expected = train(recipe, single_communicator(), std::nullopt);
  const Weights found = train_sharded(recipe, setting);
  ASSERT_EQ(found.size(), expected.size());
  // Sums of twelve samples in another order, twenty steps long.
  const double tolerance = recipe.dtype == at::kDouble ? 1e-11 : 2e-5;
  for (const auto& [name, weight] : expected) {
    EXPECT_LT((found.at(name) - weight).abs().max().item<double>(), tolerance) << name;
  }
}

std::string text_of(const Setting& setting) {
  return std::string(to_string(setting.strategy)) + "_" + std::string(to_string(setting.home)) +
         "_" + std::string(testing::to_string(setting.engine)) + "_" +
         std::to_string(setting.ranks);
}

std::string training_name(const ::testing::TestParamInfo<ShardedTraining::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + text_of(std::get<1>(info.param));
}

std::vector<ShardedTraining::ParamType> runs() {
  std::vector<ShardedTraining::ParamType> all;
  for (const Recipe& recipe : recipes())
    for (const Setting& setting : settings()) all.emplace_back(recipe, setting);
  return testing::pairwise(all, [](const ShardedTraining::ParamType& run) {
    const auto& [recipe, setting] = run;
    return std::vector<std::string>{
        recipe.name, std::string(to_string(setting.strategy)), std::string(to_string(setting.home)),
        std::string(testing::to_string(setting.engine)), std::to_string(setting.ranks)};
  });
}

INSTANTIATE_TEST_SUITE_P(All, ShardedTraining, ::testing::ValuesIn(runs()), training_name);

// The recipe of that name, in fp32 or with masters in it.
Recipe recipe_of(const std::string& name, MixedPrecision precision) {
  for (Recipe& recipe : recipes()) {
    if (recipe.name != name) continue;
    recipe.precision = precision;
    recipe.dtype = at::kFloat;
    return recipe;
  }
  throw std::invalid_argument(name);
}

Weights train_replicated(const Recipe& recipe, Engine engine, int ranks) {
  Weights of_last;
  run_ranks_shared(ranks,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     auto weights = train(recipe, comm, std::nullopt);
                     if (comm->rank() == comm->size() - 1) of_last = std::move(weights);
                   },
                   {.engine = engine});
  return of_last;
}

class ShardedBits : public ::testing::TestWithParam<std::tuple<const char*, Setting>> {};

// Shared memory adds gradients up in rank order in both; kernels update each element by itself.
TEST_P(ShardedBits, AreThoseOfReplicatedTraining) {
  const auto& [name, setting] = GetParam();
  const Recipe recipe = recipe_of(name, MixedPrecision::no);
  const auto expected = train_replicated(recipe, setting.engine, setting.ranks);
  const auto found = train_sharded(recipe, setting);
  for (const auto& [key, weight] : expected) EXPECT_TRUE(found.at(key).equal(weight)) << key;
}

// HYBRID_* adds up group by group: its sums are others.
std::vector<Setting> settings_of_equal_bits() {
  using enum ShardingStrategy;
  using enum FullParametersHome;
  std::vector<Setting> all = {{SHARD_GRAD_OP, shared_pages, Engine::shared_memory, 3},
                              {SHARD_GRAD_OP, gathered, Engine::shared_memory, 3},
                              {NO_SHARD, automatic, Engine::shared_memory, 3}};
  for (const int ranks : {2, 3, 4}) {
    for (const auto home : {shared_pages, gathered})
      all.push_back({FULL_SHARD, home, Engine::shared_memory, ranks});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ShardedBits,
                         ::testing::Combine(::testing::Values("Plain", "AdamW", "Accumulates",
                                                              "Branches"),
                                            ::testing::ValuesIn(settings_of_equal_bits())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  text_of(std::get<1>(info.param));
                         });

struct HalfSetting {
  std::string name;
  Setting setting;  // With any number of ranks from fewest_ranks to this.
  double tolerance;
  int fewest_ranks = 2;
};
void PrintTo(const HalfSetting& half, std::ostream* out) {
  *out << half.name;
}

class ShardedHalf : public ::testing::TestWithParam<HalfSetting> {};

// The script adds ranks up in fp32, as shared memory does: what is left are the last bits of fp32
// masters, which sometimes round to the next number of 16 bits. Gloo rounds every partial sum.
TEST_P(ShardedHalf, TrainsAsPyTorchWithMastersOfItsOwn) {
  auto [place, setting, tolerance, fewest_ranks] = GetParam();
  const int most_ranks = setting.ranks;
  const std::vector<nlohmann::json> rows =
      nlohmann::json::parse(testing::read_reference("sharded_half.json"));
  ASSERT_EQ(rows.size(), 42u);
  for (const auto& row : testing::pairwise(rows, [](const nlohmann::json& one) {
         return std::vector<std::string>{one.at("dtype"), one.at("recipe"), one.at("ranks").dump()};
       })) {
    setting.ranks = row.at("ranks");
    if (setting.ranks < fewest_ranks || setting.ranks > most_ranks) continue;
    const auto precision =
        row.at("dtype") == "bfloat16" ? MixedPrecision::bf16 : MixedPrecision::fp16;
    const Recipe recipe = recipe_of(row.at("recipe"), precision);
    const Weights found = train_sharded(recipe, setting);
    for (const auto& [name, weights] : row.at("weights").items()) {
      const auto expected = torch::tensor(weights.get<std::vector<double>>());
      const auto got = found.at(name).flatten().slice(0, 0, std::nullopt, 7).to(at::kDouble);
      EXPECT_LT((got - expected).abs().max().item<double>(), tolerance)
          << name << " of " << row.at("dtype") << ' ' << row.at("recipe") << " on "
          << setting.ranks;
    }
  }
}

std::vector<HalfSetting> half_settings() {
  using enum ShardingStrategy;
  using enum FullParametersHome;
  constexpr auto kShared = Engine::shared_memory;
  return {{"Pages", {FULL_SHARD, shared_pages, kShared, 4}, 1e-4},
          {"PagesKept", {SHARD_GRAD_OP, shared_pages, kShared, 2}, 1e-4},
          {"Windows", {FULL_SHARD, gathered, kShared, 4}, 1e-4},
          {"WindowsKept", {SHARD_GRAD_OP, gathered, kShared, 3}, 1e-4, 3},
          {"Resident", {NO_SHARD, automatic, kShared, 3}, 1e-4, 3},
          // The sum of a group is rounded to 16 bits before groups add up.
          {"Groups", {HYBRID_SHARD, gathered, kShared, 4}, 5e-3, 4},
          {"Collective", {FULL_SHARD, gathered, Engine::gloo, 2}, 2e-2}};
}

INSTANTIATE_TEST_SUITE_P(Places, ShardedHalf, ::testing::ValuesIn(half_settings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace accelerate
