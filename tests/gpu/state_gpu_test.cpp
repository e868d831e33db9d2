// Checkpoints of a GPU, its random numbers, its memory, its profile, and which GPU is taken.
#include <filesystem>
#include <fstream>
#include <string>

#include "accelerate/comm/state/partial_state.h"
#include "accelerate/watch/profiler/memory_meter.h"
#include "accelerate/watch/profiler/profiler.h"
#include "tests/gpu/gpu.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::alone;
using testing::distance;
using testing::rows;
using testing::ScopedEnv;
using testing::TemporaryFolder;
using testing::test_device;

struct Training {
  Training() : accelerator(alone()) {
    net = torch::nn::Sequential(torch::nn::Linear(4, 64), torch::nn::BatchNorm1d(64),
                                torch::nn::Dropout(0.5), torch::nn::Linear(64, 1));
    testing::fill(*net);
    adamw =
        std::make_unique<torch::optim::AdamW>(net->parameters(), torch::optim::AdamWOptions(0.01));
    model = std::make_unique<Prepared<torch::nn::Sequential>>(accelerator.prepare(net));
    optimizer = std::make_unique<AcceleratedOptimizer>(accelerator.prepare(*adamw));
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      accelerator.backward((*model)(rows(8, i).to(accelerator.device())).square().mean());
      optimizer->step();
      optimizer->zero_grad();
    }
  }
  Accelerator accelerator;
  torch::nn::Sequential net{nullptr};
  std::unique_ptr<torch::optim::AdamW> adamw;
  std::unique_ptr<Prepared<torch::nn::Sequential>> model;
  std::unique_ptr<AcceleratedOptimizer> optimizer;
};

class GpuCheckpoint : public ::testing::TestWithParam<bool> {};

// Bit for bit: dropout draws from the device's generator, whose state the checkpoint has.
TEST_P(GpuCheckpoint, ATrainingThatIsResumedGoesOnBitForBit) {
  NEED_DEVICE();
  const TemporaryFolder folder;
  set_seed(7);
  Training whole;
  whole.steps(4);
  whole.accelerator.save_state(folder.path() / "state", {.asynchronous = GetParam()});
  whole.steps(4);  // While it is being saved.
  whole.accelerator.wait_for_save();
  const auto expected = testing::weights_of(*whole.net);
  set_seed(99);
  Training resumed;
  resumed.accelerator.load_state(folder.path() / "state");
  for (const auto& parameter : resumed.net->parameters())
    EXPECT_EQ(parameter.device(), test_device());
  resumed.steps(4);
  EXPECT_EQ(distance(testing::weights_of(*resumed.net), expected), 0);
}
INSTANTIATE_TEST_SUITE_P(Asynchronous, GpuCheckpoint, ::testing::Bool());

TEST(GpuCheckpoint, WeightsOfTheDeviceAreReadOnTheCpu) {
  NEED_DEVICE();
  const TemporaryFolder folder;
  Training training;
  training.steps(2);
  training.accelerator.save_model(*training.model, folder.path());
  torch::nn::Sequential fresh(torch::nn::Linear(4, 64), torch::nn::BatchNorm1d(64),
                              torch::nn::Dropout(0.5), torch::nn::Linear(64, 1));
  load_checkpoint_in_model(*fresh, folder.path());
  EXPECT_EQ(distance(testing::weights_of(*fresh), testing::weights_of(*training.net)), 0);
}

TEST(GpuRandom, SeedsTheDevice) {
  NEED_DEVICE();
  set_seed(3);
  const auto first = torch::rand({16}, test_device());
  set_seed(3);
  EXPECT_TRUE(torch::rand({16}, test_device()).equal(first));
}

// A batch that does not fit is tried again smaller, and nothing of the failed attempt stays.
TEST(GpuMemory, TheBatchSizeFinderGoesOnAfterTheGpuIsFull) {
  NEED_GPU();
  Accelerator accelerator(alone());
  std::vector<std::int64_t> tried;
  auto search = find_executable_batch_size(
      accelerator,
      [&](std::int64_t batch_size) {
        tried.push_back(batch_size);
        // A row takes 4 GiB: 128 of them are more than any GPU has, one fits most.
        return torch::empty({batch_size, std::int64_t{1} << 32},
                            at::TensorOptions(at::kByte).device(test_device()))
            .size(0);
      },
      {.starting_batch_size = 128,
       .reduce_batch_size_fn = [](std::int64_t size) { return size / 2; }});
  const auto fitted = search();
  clear_device_cache();  // The attempt that fitted may have most of the GPU.
  EXPECT_GE(tried.size(), 2U);
  EXPECT_EQ(tried.back(), fitted);
  EXPECT_LT(device_memory(test_device()).allocated_bytes, std::int64_t{1} << 32);
}

TEST(GpuMemory, MetersAndClearDeviceCacheTellWhatTensorsTake) {
  NEED_GPU();
  constexpr std::int64_t kBytes = 64 << 20;
  clear_device_cache();
  const auto before = device_memory(test_device());
  const MemoryMeter meter(test_device());
  auto tensor = torch::empty({kBytes}, at::TensorOptions(at::kByte).device(test_device()));
  EXPECT_EQ(device_memory(test_device()).allocated_bytes - before.allocated_bytes, kBytes);
  tensor = at::Tensor();
  const auto report = meter.read();
  EXPECT_EQ(report.device_now_bytes, report.device_before_bytes);
  EXPECT_GE(report.device_peak_bytes - report.device_before_bytes, kBytes);
  EXPECT_NE(to_string(report).find("device: "), std::string::npos) << to_string(report);
  clear_device_cache();
  EXPECT_LE(device_memory(test_device()).reserved_bytes, before.reserved_bytes);
}

TEST(GpuProfiler, SeesTheDevicesKernels) {
  NEED_GPU();
  Accelerator accelerator(alone());
  const TemporaryFolder folder;
  {
    auto profiler = accelerator.profile({.output_trace_dir = folder.path()});
    const auto x = torch::randn({512, 512}, test_device());
    for (int i = 0; i < 3; ++i) (void)torch::mm(x, x);
    torch::cuda::synchronize();
  }
  std::ifstream file(folder.path() / "profile_0.json");
  const std::string trace((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(trace.find("\"kernel\""), std::string::npos);
  EXPECT_NE(trace.find("aten::mm"), std::string::npos);
}

TEST(GpuDevice, IsTakenByNumberByRankAndNotWithCpu) {
  NEED_GPU();
  const int gpus = torch::cuda::device_count();
  EXPECT_EQ(choose_device(false, 0), c10::Device(c10::kCUDA, 0));
  EXPECT_EQ(choose_device(false, gpus), c10::Device(c10::kCUDA, 0));  // More ranks than GPUs.
  EXPECT_EQ(choose_device(true, 0), c10::Device(c10::kCPU));
  const ScopedEnv asked("ACCELERATE_TORCH_DEVICE", "cuda:0");
  EXPECT_EQ(choose_device(false, 3), c10::Device(c10::kCUDA, 0));
}

void expect_refusal(const char* device, const std::string& message) {
  const ScopedEnv asked("ACCELERATE_TORCH_DEVICE", device);
  try {
    (void)choose_device(false, 0);
    FAIL() << device;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(GpuDevice, RefusesOneThatIsNotThere) {
  NEED_DEVICE();
  expect_refusal("cuda:99", "ACCELERATE_TORCH_DEVICE is 'cuda:99', but this program sees " +
                                std::to_string(torch::cuda::device_count()) + " GPUs");
  expect_refusal("gpu", "'gpu'; allowed are cpu, cuda and cuda:N");
}

// A process for itself: CUDA reads the variable once.
RANK_MAIN(hidden_gpus) {
  if (torch::cuda::is_available()) return 2;
  const Accelerator accelerator({.communicator = single_communicator()});
  return accelerator.device().is_cpu() ? 0 : 3;
}

TEST(GpuDevice, TakesTheCpuWhereVisibleDevicesHidesEveryGpu) {
  NEED_DEVICE();
  for (const auto& result :
       testing::run_processes(1, "hidden_gpus", {.env = {{"CUDA_VISIBLE_DEVICES", "-1"}}})) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

}  // namespace
}  // namespace accelerate
