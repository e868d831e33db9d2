// What needs a GPU: one rank over NCCL, two processes on one GPU over engines of the CPU.
// tools/gpu_check runs these.
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/staged_communicator.h"
#include "accelerate/parallel/gradients/gradient_reducer.h"
#include "accelerate/parallel/replicated/sync_batch_norm.h"
#include "tests/gpu/gpu.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);

std::shared_ptr<Communicator> one_rank_over_nccl() {
  return stage_on(make_nccl_communicator(c10::make_intrusive<c10d::HashStore>(), 0, 1,
                                         std::chrono::seconds(60), kGpu),
                  kGpu);
}

at::Tensor numbers(c10::Device device, at::ScalarType dtype = at::kFloat) {
  return torch::arange(1, 7).view({2, 3}).to(device, dtype);
}

TEST(Nccl, EveryCollectiveOfOneRankIsACopy) {
  NEED_NCCL();
  const auto comm = one_rank_over_nccl();
  EXPECT_EQ(comm->backend(), "nccl");
  for (const auto device : {kGpu, c10::Device(c10::kCPU)}) {  // the CPU's travel by way of the GPU
    for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kBool}) {
      const auto x = numbers(device, dtype);
      auto y = x.clone();
      comm->all_reduce(y, ReduceOp::sum).wait();
      EXPECT_TRUE(y.equal(x)) << dtype;
      comm->broadcast(y, 0).wait();
      EXPECT_TRUE(y.equal(x)) << dtype;
      auto gathered = torch::empty({1, 2, 3}, x.options());
      comm->all_gather(gathered, x).wait();
      EXPECT_TRUE(gathered[0].equal(x)) << dtype;
    }
  }
  comm->barrier();
}

TEST(Nccl, ReducesGradientsWhileBackwardRuns) {
  NEED_NCCL();
  torch::nn::Linear plain(8, 4), reduced(8, 4);
  plain->to(kGpu);
  reduced->to(kGpu);
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < 2; ++i) reduced->parameters()[i].copy_(plain->parameters()[i]);
  const at::AutoGradMode grad_mode(true);
  GradientReducer reducer(view_of(*reduced).parameters, one_rank_over_nccl(), {});
  const auto x = torch::ones({3, 8}, kGpu);
  reducer.begin();
  reduced(x).pow(2).sum().backward();
  EXPECT_TRUE(reducer.finish());
  plain(x).pow(2).sum().backward();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(reduced->parameters()[i].grad().equal(plain->parameters()[i].grad()));
  }
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    body =
        register_module("body", torch::nn::Sequential(torch::nn::Linear(4, 8),
                                                      SyncBatchNorm(torch::nn::BatchNormOptions(8)),
                                                      torch::nn::ReLU(), torch::nn::Linear(8, 1)));
    testing::fill(*this);
  }
  at::Tensor forward(const at::Tensor& x) { return body->forward(x); }
  torch::nn::Sequential body{nullptr};
};
TORCH_MODULE(Net);

// Weights after a few steps of 8 samples, shared by the ranks.
std::vector<at::Tensor> train(Accelerator& accelerator) {
  Net net;
  torch::optim::SGD sgd(net->parameters(), 0.02);
  auto batches = make_data_loader(
      torch::cos(torch::arange(32 * 4, at::kFloat) * 0.37).view({32, 4}), {.batch_size = 8});
  auto [model, optimizer, loader] = accelerator.prepare(net, sgd, batches);
  for (auto& batch : loader) {
    EXPECT_EQ(batch.device(), accelerator.device());
    accelerator.backward((model(batch) - batch.sum(1, true)).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  return testing::weights_of(*net);
}

// One process with the whole batches. The device that the ranks were given is not its own.
std::vector<at::Tensor> train_on_cpu() {
  const testing::ScopedEnv no_device("ACCELERATE_TORCH_DEVICE", nullptr);
  Accelerator alone({.cpu = true, .communicator = single_communicator()});
  EXPECT_TRUE(alone.device().is_cpu());
  return train(alone);
}

RANK_MAIN(two_on_one_gpu) {
  Accelerator accelerator({.dataloader_config = {.split_batches = true},
                           .init_process_group = {.backend = *env("TEST_BACKEND")}});
  if (accelerator.device() != kGpu) return 2;
  if (accelerator.distributed_type() != DistributedType::MULTI_GPU) return 3;
  const auto weights = train(accelerator);
  if (testing::distance(weights, train_on_cpu()) > testing::kTolerance) return 4;
  accelerator.end_training();
  return ::testing::Test::HasFailure() ? 5 : 0;
}

class EngineOfTheCpu : public ::testing::TestWithParam<const char*> {};

TEST_P(EngineOfTheCpu, LetsTwoProcessesOnOneGpuTrainWhatOneTrainsOnTheCpu) {
  NEED_GPU();
  const testing::ProcessesOptions options = {
      .time_limit = std::chrono::seconds(110),
      .env = {{"ACCELERATE_TORCH_DEVICE", "cuda:0"}, {"TEST_BACKEND", GetParam()}}};
  for (const auto& result : testing::run_processes(2, "two_on_one_gpu", options)) {
    EXPECT_EQ(result.exit_code, 0) << result.rank << "\n" << result.err;
  }
}
INSTANTIATE_TEST_SUITE_P(OnGpus, EngineOfTheCpu, ::testing::Values("gloo", "shared_memory"),
                         [](const auto& info) { return std::string(info.param); });

RANK_MAIN(two_gpus) {
  Accelerator accelerator({.dataloader_config = {.split_batches = true}});
  if (accelerator.communicator().backend() != "nccl") return 2;
  if (accelerator.device() !=
      c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(accelerator.process_index())))
    return 3;
  const auto weights = train(accelerator);
  if (testing::distance(weights, train_on_cpu()) > testing::kTolerance) return 4;
  accelerator.end_training();
  return ::testing::Test::HasFailure() ? 5 : 0;
}

TEST(TwoGpus, TrainOverNcclWhatOneTrainsOnTheCpu) {
  NEED_TWO_GPUS();
  const testing::ProcessesOptions options = {.time_limit = std::chrono::seconds(110), .env = {}};
  for (const auto& result : testing::run_processes(2, "two_gpus", options)) {
    EXPECT_EQ(result.exit_code, 0) << result.rank << "\n" << result.err;
  }
}

TEST(Gpu, OneProcessTrainsWhatTheCpuTrains) {
  NEED_GPU();
  Accelerator gpu({.communicator = single_communicator()});
  Accelerator cpu({.cpu = true, .communicator = single_communicator()});
  EXPECT_LE(testing::distance(train(gpu), train(cpu)), testing::kTolerance);
}

}  // namespace
}  // namespace accelerate
