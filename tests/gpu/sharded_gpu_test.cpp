// Sharded training on a GPU: one rank over NCCL, two processes on one GPU over an engine of the
// CPU, two GPUs over NCCL. tools/gpu_check runs these.
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <memory>
#include <string>
#include <vector>

#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/staged_communicator.h"
#include "tests/gpu/gpu.h"
#include "tests/parallel/sharded/sharded_net.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::ShardedNet;
using testing::ShardedNetOptions;

const c10::Device kShardedGpu(c10::kCUDA, 0);

// How a model is divided, and where its full values live.
struct Home {
  std::string name;
  ShardingStrategy strategy = ShardingStrategy::FULL_SHARD;
  FullParametersHome full = FullParametersHome::gathered;
  bool offload = false;
  bool prefetch = true;
};

FullyShardedDataParallelPlugin plugin(const Home& home) {
  auto plugin = testing::wrapping_blocks();
  plugin.sharding_strategy = home.strategy;
  plugin.full_parameters = home.full;
  plugin.backward_prefetch =
      home.prefetch ? BackwardPrefetch::BACKWARD_PRE : BackwardPrefetch::NO_PREFETCH;
  plugin.forward_prefetch = home.prefetch;
  plugin.sync_module_states = true;
  plugin.cpu_offload = home.offload;
  return plugin;
}

const std::vector<Home> kHomes = {
    {"gathered"},
    {"gathered_without_prefetch", ShardingStrategy::FULL_SHARD, FullParametersHome::gathered, false,
     false},
    {"kept_until_backward", ShardingStrategy::SHARD_GRAD_OP},
    {"offloaded", ShardingStrategy::FULL_SHARD, FullParametersHome::gathered, true},
    {"automatic", ShardingStrategy::FULL_SHARD, FullParametersHome::automatic}};

// A buffer goes to the device too, on ranks that get it from rank 0 as well.
struct ScaledNetImpl : torch::nn::Module {
  ScaledNetImpl() : scale(register_buffer("scale", torch::full({ShardedNet::Impl::kWidth}, 0.5))) {
    register_module("net", net);
  }
  at::Tensor forward(const at::Tensor& x) { return net(x * scale, false); }
  ShardedNet net{ShardedNetOptions{.tied = true, .frozen = true}};
  at::Tensor scale;
};
TORCH_MODULE(ScaledNet);

std::vector<at::Tensor> train_sharded(Accelerator& accelerator, bool offload = false) {
  ScaledNet net;
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(0.01));
  auto [model, optimizer] = accelerator.prepare(net, adamw);
  for (const auto& part : model.local_parameters()) {
    EXPECT_EQ(part.device().is_cpu(), offload || accelerator.device().is_cpu());
  }
  const auto all = torch::sin(torch::arange(8 * 7, at::kFloat)).view({8, 7});
  const auto x =
      all.chunk(accelerator.num_processes())[static_cast<std::size_t>(accelerator.process_index())]
          .to(accelerator.device());
  for (int step = 0; step < 10; ++step) {
    accelerator.backward((model(x) - x.flip(1)).square().mean());
    accelerator.clip_grad_norm_(model.parameters(), 0.5);
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto whole = model.summon_full_params({.writeback = false});
  std::vector<at::Tensor> weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().cpu());
  return weights;
}

double distance_from_cpu(const std::vector<at::Tensor>& found) {
  const testing::ScopedEnv no_device("ACCELERATE_TORCH_DEVICE", nullptr);
  Accelerator alone({.cpu = true, .communicator = single_communicator()});
  EXPECT_TRUE(alone.device().is_cpu());
  return testing::distance(found, train_sharded(alone));
}

std::shared_ptr<Communicator> shard_over_nccl() {
  return stage_on(make_nccl_communicator(c10::make_intrusive<c10d::HashStore>(), 0, 1,
                                         std::chrono::seconds(60), kShardedGpu),
                  kShardedGpu);
}

class ShardedGpu : public ::testing::TestWithParam<Home> {};

TEST_P(ShardedGpu, OneRankOverNcclTrainsWhatTheCpuTrains) {
  NEED_NCCL();
  Accelerator accelerator({.fsdp_plugin = plugin(GetParam()), .communicator = shard_over_nccl()});
  const auto weights = train_sharded(accelerator, GetParam().offload);
  EXPECT_LE(distance_from_cpu(weights), testing::kTolerance);
}
INSTANTIATE_TEST_SUITE_P(Home, ShardedGpu, ::testing::ValuesIn(kHomes),
                         [](const auto& info) { return info.param.name; });

// What a forward gathers is given back when it is over.
TEST(ShardedGpuMemory, GathersAUnitAtATimeAndGivesItBack) {
  NEED_NCCL();
  constexpr std::int64_t kWidth = 1024, kBlocks = 8;
  auto whole = testing::wrapping_blocks();
  whole.full_parameters = FullParametersHome::gathered;
  Accelerator accelerator({.fsdp_plugin = whole, .communicator = shard_over_nccl()});
  torch::nn::Sequential net;
  for (int i = 0; i < kBlocks; ++i) net->push_back(testing::Block(kWidth));
  auto model = accelerator.prepare(net);
  const auto x = torch::randn({2, kWidth}, kShardedGpu);
  const torch::NoGradGuard no_grad;
  (void)model(x);
  const auto before = device_memory(kShardedGpu);
  reset_peak_memory(kShardedGpu);
  (void)model(x);
  const auto after = device_memory(kShardedGpu);
  constexpr std::int64_t kUnitBytes = 4 * kWidth * kWidth * 4;  // A block: up and down, fp32.
  EXPECT_LE(after.allocated_bytes - before.allocated_bytes, kUnitBytes / 8);
  EXPECT_LE(after.peak_allocated_bytes - before.allocated_bytes, 4 * kUnitBytes);  // Of eight.
}

int train_two_shards(const Home& home, const std::string& backend) {
  Accelerator accelerator(
      {.fsdp_plugin = plugin(home), .init_process_group = {.backend = backend}});
  if (!accelerator.device().is_cuda()) return 2;
  if (distance_from_cpu(train_sharded(accelerator, home.offload)) > testing::kTolerance) return 4;
  accelerator.end_training();
  return ::testing::Test::HasFailure() ? 5 : 0;
}

const Home& asked_home() {
  return *std::ranges::find(kHomes, *env("TEST_HOME"), &Home::name);
}

RANK_MAIN(two_shards_on_one_gpu) {
  return train_two_shards(asked_home(), *env("TEST_BACKEND"));
}

void expect_success(const std::string& rank_main, std::map<std::string, std::string> environment,
                    int ranks = 2) {
  for (const auto& result : testing::run_processes(
           ranks, rank_main,
           {.time_limit = std::chrono::seconds(110), .env = std::move(environment)})) {
    EXPECT_EQ(result.exit_code, 0) << result.rank << "\n" << result.err;
  }
}

using OnOneGpu = std::tuple<Home, const char*>;
class ShardedGpus : public ::testing::TestWithParam<OnOneGpu> {};

TEST_P(ShardedGpus, TwoProcessesOnOneGpuTrainWhatOneTrainsOnTheCpu) {
  NEED_GPU();
  const auto& [home, backend] = GetParam();
  expect_success(
      "two_shards_on_one_gpu",
      {{"ACCELERATE_TORCH_DEVICE", "cuda:0"}, {"TEST_HOME", home.name}, {"TEST_BACKEND", backend}});
}
INSTANTIATE_TEST_SUITE_P(Homes, ShardedGpus,
                         ::testing::Combine(::testing::Values(kHomes[0], kHomes[2], kHomes[3]),
                                            ::testing::Values("gloo", "shared_memory")),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param);
                         });

RANK_MAIN(a_shard_a_gpu) {
  return train_two_shards(asked_home(), "nccl");
}

class ShardedTwoGpus : public ::testing::TestWithParam<Home> {};

TEST_P(ShardedTwoGpus, TrainOverNcclWhatOneTrainsOnTheCpu) {
  NEED_TWO_GPUS();
  expect_success("a_shard_a_gpu", {{"TEST_HOME", GetParam().name}});
}
INSTANTIATE_TEST_SUITE_P(Home, ShardedTwoGpus, ::testing::ValuesIn(kHomes),
                         [](const auto& info) { return info.param.name; });

// Two copies of two shards each.
RANK_MAIN(hybrid_on_gpus) {
  Home hybrid{"hybrid", ShardingStrategy::HYBRID_SHARD};
  auto options = plugin(hybrid);
  options.shard_group_size = 2;
  Accelerator accelerator({.fsdp_plugin = options});
  if (distance_from_cpu(train_sharded(accelerator)) > testing::kTolerance) return 4;
  accelerator.end_training();
  return ::testing::Test::HasFailure() ? 5 : 0;
}

TEST(HybridTwoGpus, CopiesOfShardsTrainWhatOneTrainsOnTheCpu) {
  NEED_TWO_GPUS();
  if (torch::cuda::device_count() < 4) GTEST_SKIP() << "needs four GPUs";
  expect_success("hybrid_on_gpus", {}, 4);
}

}  // namespace
}  // namespace accelerate
