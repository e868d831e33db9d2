// A model whose parameters, gradients and optimizer state live in files trains as it does in
// memory, to the bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/base/temporary_folder.h"
#include "accelerate/parallel/inspection.h"
#include "accelerate/parallel/parallel_model.h"
#include "tests/parallel/sharded/sharded_places.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::ShardedNet;
using torch::optim::Optimizer;

constexpr int kSteps = 4;

using Make = std::function<std::unique_ptr<Optimizer>(const std::vector<at::Tensor>&)>;

template <typename Kind, typename Options>
Make making(const Options& options) {
  return [options](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<Kind>(parameters, options);
  };
}

// Weights that decay and weights that do not, as most programs have them.
std::unique_ptr<Optimizer> adamw_of_two_groups(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> matrices, vectors;
  for (const auto& parameter : parameters)
    (parameter.dim() > 1 ? matrices : vectors).push_back(parameter);
  using torch::optim::AdamWOptions;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(matrices,
                      std::make_unique<AdamWOptions>(AdamWOptions(0.01).weight_decay(0.1)));
  groups.emplace_back(vectors, std::make_unique<AdamWOptions>(AdamWOptions(0.02).weight_decay(0)));
  return std::make_unique<torch::optim::AdamW>(groups, AdamWOptions(0.01));
}

struct Case {
  std::string name;
  int ranks = 2;
  Engine engine = Engine::shared_memory;
  bool parameters = true;
  bool optimizer = true;
  MixedPrecision precision = MixedPrecision::no;
  int accumulation = 1;
  double clip = 0;
  std::int64_t max_in_cpu = 0;
  ShardingStrategy strategy = ShardingStrategy::FULL_SHARD;
  Make make = adamw_of_two_groups;
};
void PrintTo(const Case& given, std::ostream* out) {
  *out << given.name;
}

std::vector<Case> cases() {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace): a table reads well
  const auto sgd = making<SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.1));
  return {
      {.name = "OneRank", .ranks = 1},
      {.name = "TwoRanks"},
      {.name = "ThreeRanksOverGloo", .ranks = 3, .engine = Engine::gloo},
      {.name = "ParametersAlone", .optimizer = false},
      {.name = "OptimizerAlone", .parameters = false},
      {.name = "OptimizerAloneOneRank", .ranks = 1, .parameters = false},
      {.name = "OptimizerAloneStage2",
       .parameters = false,
       .strategy = ShardingStrategy::SHARD_GRAD_OP},
      {.name = "OptimizerAloneNotSharded",
       .parameters = false,
       .strategy = ShardingStrategy::NO_SHARD},
      {.name = "Bf16", .precision = MixedPrecision::bf16},
      {.name = "Bf16OneRank", .ranks = 1, .precision = MixedPrecision::bf16},
      {.name = "Bf16ParametersAlone", .optimizer = false, .precision = MixedPrecision::bf16},
      {.name = "Bf16OptimizerAlone", .parameters = false, .precision = MixedPrecision::bf16},
      {.name = "Fp16", .precision = MixedPrecision::fp16},
      {.name = "Accumulated", .accumulation = 3},
      {.name = "AccumulatedBf16", .precision = MixedPrecision::bf16, .accumulation = 2},
      {.name = "Clipped", .clip = 0.01},
      {.name = "ClippedFp16", .precision = MixedPrecision::fp16, .clip = 0.01},
      {.name = "SomeInMemory", .max_in_cpu = 700},
      {.name = "Sgd", .make = sgd},
      {.name = "SgdBf16", .precision = MixedPrecision::bf16, .make = sgd},
      {.name = "SgdBf16ParametersAlone",
       .optimizer = false,
       .precision = MixedPrecision::bf16,
       .make = sgd},
      {.name = "SgdWithoutMomentum", .make = making<SGD>(SGDOptions(0.05))},
      {.name = "AdamAmsgrad", .make = making<Adam>(AdamOptions(0.01).amsgrad(true))},
      {.name = "Adagrad",
       .make = making<Adagrad>(AdagradOptions(0.05).lr_decay(0.01).initial_accumulator_value(0.1))},
      {.name = "RmspropParametersAlone",
       .optimizer = false,
       .make = making<RMSprop>(RMSpropOptions(0.005).momentum(0.9))},
  };
}

std::vector<at::Tensor> train(const Case& given, const std::shared_ptr<Communicator>& comm,
                              const std::string& folder, int first = 0) {
  auto plugin = testing::wrapping_blocks();
  plugin.sharding_strategy = given.strategy;
  if (!folder.empty()) {
    plugin.disk_offload = DiskOffload{.parameters_folder = given.parameters ? folder : "",
                                      .optimizer_folder = given.optimizer ? folder : "",
                                      .max_in_cpu = given.max_in_cpu};
  }
  Accelerator accelerator({.gradient_accumulation_steps = given.accumulation,
                           .mixed_precision = given.precision,
                           .fsdp_plugin = plugin,
                           .communicator = comm});
  ShardedNet net(testing::ShardedNetOptions{.blocks = 3, .frozen = true});
  const auto inner = given.make(net->parameters());
  auto [model, optimizer] = accelerator.prepare(net, *inner);
  for (int step = first; step < first + kSteps * given.accumulation; ++step) {
    const auto window = accelerator.accumulate(model);
    const auto x = testing::rows_of(step, *comm).to(at::kFloat);
    accelerator.backward((model(x, false).to(at::kFloat) - x.flip(1)).square().mean());
    if (given.clip > 0 && accelerator.sync_gradients())
      accelerator.clip_grad_norm_(model.parameters(), given.clip);
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto memory = model.core()->parallel().inspection->memory();
  EXPECT_EQ(memory.disk_bytes > 0 && memory.bytes_read > 0 && memory.bytes_written > 0,
            !folder.empty());
  const auto whole = model.summon_full_params({.writeback = false});
  std::vector<at::Tensor> weights;
  for (const auto& leaf : net->parameters()) weights.push_back(leaf.detach().clone());
  return weights;
}

class OffloadToDisk : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, OffloadToDisk, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(OffloadToDisk, TrainsToTheBitAsInMemory) {
  const TemporaryFolder folder("test");
  const auto& given = GetParam();
  testing::run_ranks_shared(given.ranks,
                            [&](const std::shared_ptr<Communicator>& comm) {
                              const auto in_memory = train(given, comm, "");
                              const auto on_disk = train(given, comm, folder.path().string());
                              ASSERT_EQ(in_memory.size(), on_disk.size());
                              for (std::size_t i = 0; i < in_memory.size(); ++i)
                                EXPECT_TRUE(on_disk[i].equal(in_memory[i])) << "parameter " << i;
                            },
                            {.engine = given.engine});
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_FALSE(entry.is_directory()) << entry.path() << " was not removed";
}

// A layer that for_each_slice() brings in three pieces, and whose numbers of elements no page
// divides.
TEST(OffloadToDiskOfLargeLayers, TrainsToTheBitAsInMemory) {
  const TemporaryFolder folder("test");
  const auto weights_after = [&](const std::optional<DiskOffload>& offload) {
    FullyShardedDataParallelPlugin plugin;
    plugin.disk_offload = offload;
    Accelerator accelerator({.fsdp_plugin = plugin, .communicator = single_communicator()});
    torch::manual_seed(1);
    torch::nn::Linear net(2051, 2111);
    torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(0.01));
    auto [model, optimizer] = accelerator.prepare(net, adamw);
    for (int step = 0; step < 3; ++step) {
      accelerator.backward(model(torch::randn({2, 2051})).square().mean());
      optimizer.step();
      optimizer.zero_grad();
    }
    const auto whole = model.summon_full_params({.writeback = false});
    return std::pair(net->weight.detach().clone(), net->bias.detach().clone());
  };
  const auto in_memory = weights_after(std::nullopt);
  const std::string path = folder.path().string();
  const auto on_disk = weights_after(DiskOffload{path, path});
  EXPECT_TRUE(on_disk.first.equal(in_memory.first));
  EXPECT_TRUE(on_disk.second.equal(in_memory.second));
}

}  // namespace
}  // namespace accelerate
