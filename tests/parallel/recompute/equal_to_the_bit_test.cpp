// Units that are computed again train any module to the bits to which it trains without.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/parallel/recompute/foreign_modules.h"
#include "tests/support/pairwise.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::ForeignKind;

struct BitCase {
  ForeignKind kind;
  std::string strategy;  ///< "ddp", or a word of ShardingStrategy.
  MixedPrecision precision = MixedPrecision::no;
  int ranks = 1;
  std::string keep;  ///< "nothing", "products", or "second": every second unit.
};

std::string name_of(const BitCase& one) {
  return one.kind.name + "_" + one.strategy + "_" + std::string(to_string(one.precision)) + "_" +
         std::to_string(one.ranks) + "_" + one.keep;
}

AcceleratorOptions options_of(const BitCase& one) {
  AcceleratorOptions options{
      .gradient_accumulation_steps = 2, .mixed_precision = one.precision, .cpu = true};
  if (one.strategy == "ddp") {
    options.ddp.find_unused_parameters = true;
  } else {
    options.fsdp_plugin =
        FullyShardedDataParallelPlugin{.sharding_strategy = Word<ShardingStrategy>(one.strategy),
                                       .auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP,
                                       .transformer_cls_names_to_wrap = one.kind.units};
    if (one.kind.name == "Skipping")
      options.fsdp_plugin->transformer_cls_names_to_wrap = {
          {"AttentionBlock", "CustomFunctionBlock", "InPlaceBlock"}};
  }
  return options;
}

// What two steps of two micro-batches leave: losses, weights, buffers and the random state.
std::vector<at::Tensor> train(const BitCase& one, bool recomputes) {
  auto options = options_of(one);
  if (recomputes) {
    options.gradient_checkpointing =
        GradientCheckpointing{.units = one.kind.units,
                              .keep = one.keep == "products" ? GradientCheckpointing::Keep::products
                                                             : GradientCheckpointing::Keep::nothing,
                              .every = one.keep == "second" ? 2 : 1};
  }
  Accelerator accelerator(options);
  torch::manual_seed(3);
  auto net = one.kind.make();
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  std::vector<at::Tensor> found;
  torch::manual_seed(40 + accelerator.process_index());
  for (int step = 0; step < 4; ++step) {
    const auto window = accelerator.accumulate(model);
    const auto loss = model(torch::randn({3, testing::kLength, testing::kWidth}))
                          .to(torch::kFloat)
                          .square()
                          .mean();
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    found.push_back(loss.detach());
  }
  const auto whole = model.summon_full_params();
  for (const auto& parameter : net->parameters()) found.push_back(parameter.detach().clone());
  for (const auto& buffer : net->buffers()) found.push_back(buffer.clone());
  found.push_back(torch::rand({3}));
  return found;
}

// LibTorch's LSTM has no fp16 on a CPU.
bool can_compute(const ForeignKind& kind, MixedPrecision precision) {
  return kind.name != "Recurrent" || precision != MixedPrecision::fp16;
}

std::vector<BitCase> bit_cases() {
  std::vector<BitCase> all;
  for (const auto& kind : testing::foreign_kinds())
    for (const auto* strategy : {"ddp", "FULL_SHARD", "SHARD_GRAD_OP"})
      for (const auto precision : {MixedPrecision::no, MixedPrecision::bf16, MixedPrecision::fp16})
        for (const int ranks : {1, 2, 3, 4})
          for (const auto* keep : {"nothing", "products", "second"})
            if (can_compute(kind, precision))
              all.push_back({kind, strategy, precision, ranks, keep});
  return testing::pairwise(all, [](const BitCase& one) {
    return std::vector<std::string>{one.kind.name, one.strategy,
                                    std::string(to_string(one.precision)),
                                    std::to_string(one.ranks), one.keep};
  });
}

// Ranks are processes, since threads would share LibTorch's random numbers.
RANK_MAIN(trains_recomputed_units) {
  const PartialState state({.cpu = true});
  for (const BitCase& one : bit_cases()) {
    if (one.ranks != state.num_processes()) continue;
    SCOPED_TRACE(name_of(one));
    const auto plain = train(one, false), again = train(one, true);
    EXPECT_EQ(plain.size(), again.size());
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_TRUE(plain[i].equal(again[i])) << "value " << i << " of " << plain.size();
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}

class RecomputedUnits : public ::testing::TestWithParam<int> {};

TEST_P(RecomputedUnits, TrainToTheSameBits) {
  testing::ProcessesOptions options;
  options.time_limit = std::chrono::minutes(10);
  for (const auto& result : testing::run_processes(GetParam(), "trains_recomputed_units", options))
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

INSTANTIATE_TEST_SUITE_P(Ranks, RecomputedUnits, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace accelerate
