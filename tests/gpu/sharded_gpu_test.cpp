// Sharded training on a GPU: one rank over NCCL, two processes on one GPU over an engine of the
// CPU. tools/gpu_check runs these. Several GPUs are not covered.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <memory>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/nccl.h"
#include "accelerate/comm/staged_communicator.h"
#include "tests/accelerator/sharded_net.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::ShardedNet;
using testing::ShardedNetOptions;

constexpr double kShardedTolerance = 1e-4;  // fp32 on two kinds of processors, ten steps of AdamW.
const c10::Device kShardedGpu(c10::kCUDA, 0);

FullyShardedDataParallelPlugin plugin(bool offload) {
  auto plugin = testing::wrapping_blocks();
  plugin.full_parameters = FullParametersHome::gathered;
  plugin.backward_prefetch = BackwardPrefetch::BACKWARD_PRE;
  plugin.sync_module_states = true;
  plugin.cpu_offload = offload;
  return plugin;
}

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

double distance(const std::vector<at::Tensor>& found) {
  Accelerator alone({.cpu = true, .communicator = single_communicator()});
  const auto expected = train_sharded(alone);
  double greatest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    greatest = std::max(greatest, (found[i] - expected[i]).abs().max().item<double>());
  }
  return greatest;
}

class ShardedGpu : public ::testing::TestWithParam<bool> {};

TEST_P(ShardedGpu, OneRankOverNcclTrainsWhatTheCpuTrains) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU that this LibTorch can use";
  if (!detail::has_nccl()) GTEST_SKIP() << "no NCCL in this build";
  const auto comm = stage_on(make_nccl_communicator(c10::make_intrusive<c10d::HashStore>(), 0, 1,
                                                    std::chrono::seconds(60), kShardedGpu),
                             kShardedGpu);
  Accelerator accelerator({.fsdp_plugin = plugin(GetParam()), .communicator = comm});
  EXPECT_LE(distance(train_sharded(accelerator, GetParam())), kShardedTolerance);
}
INSTANTIATE_TEST_SUITE_P(Offload, ShardedGpu, ::testing::Bool());

RANK_MAIN(two_shards_on_one_gpu) {
  Accelerator accelerator(
      {.fsdp_plugin = plugin(false), .init_process_group = {.backend = "gloo"}});
  if (accelerator.device() != kShardedGpu) return 2;
  if (distance(train_sharded(accelerator)) > kShardedTolerance) return 4;
  accelerator.end_training();
  return ::testing::Test::HasFailure() ? 5 : 0;
}

TEST(ShardedGpus, TwoProcessesOnOneGpuTrainWhatOneTrainsOnTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU that this LibTorch can use";
  const testing::ProcessesOptions options = {.time_limit = std::chrono::seconds(110),
                                             .env = {{"ACCELERATE_TORCH_DEVICE", "cuda:0"}}};
  for (const auto& result : testing::run_processes(2, "two_shards_on_one_gpu", options)) {
    EXPECT_EQ(result.exit_code, 0) << result.rank << "\n" << result.err;
  }
}

}  // namespace
}  // namespace accelerate
