// What the tests of a GPU share. On a machine without one they skip; with
// ACCELERATE_GPU_TESTS_ON=cpu those that can run on the CPU do so there (`ctest -R gpu_rehearsal`),
// which shows that the tests themselves are right, and nothing of a GPU.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/base/environment.h"
#include "accelerate/comm/nccl.h"

namespace accelerate::testing {

inline bool is_rehearsal() {
  return env("ACCELERATE_GPU_TESTS_ON") == "cpu";
}

inline bool has_gpu() {
  return !is_rehearsal() && torch::cuda::is_available();
}

/// The device of the tests: the first GPU, or in a rehearsal the CPU.
inline c10::Device test_device() {
  return is_rehearsal() ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, 0);
}

/// Skips what shows nothing without a GPU.
#define NEED_GPU() \
  if (!::accelerate::testing::has_gpu()) GTEST_SKIP() << "no GPU that this LibTorch can use"
/// Skips what a rehearsal runs on the CPU.
#define NEED_DEVICE()                                                              \
  if (!::accelerate::testing::has_gpu() && !::accelerate::testing::is_rehearsal()) \
  GTEST_SKIP() << "no GPU that this LibTorch can use"
#define NEED_NCCL() \
  NEED_GPU();       \
  if (!detail::has_nccl()) GTEST_SKIP() << "no NCCL in this build"
#define NEED_TWO_GPUS() \
  NEED_NCCL();          \
  if (torch::cuda::device_count() < 2) GTEST_SKIP() << "needs two GPUs"

/// An Accelerator of one process on the test device.
inline AcceleratorOptions alone(AcceleratorOptions options = {}) {
  options.cpu = is_rehearsal();
  options.communicator = single_communicator();
  return options;
}

/// Float sums in another order and by other kernels.
inline constexpr double kTolerance = 1e-4;

inline double distance(const std::vector<at::Tensor>& found,
                       const std::vector<at::Tensor>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double greatest = 0;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    const auto difference = (found[i].cpu() - expected[i].cpu()).abs().max().item<double>();
    greatest = std::max(greatest, difference);
  }
  return greatest;
}

inline std::vector<at::Tensor> weights_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> weights;
  for (const auto& parameter : module.parameters())
    weights.push_back(parameter.detach().cpu().clone());
  for (const auto& buffer : module.buffers()) weights.push_back(buffer.detach().cpu().clone());
  return weights;
}

/// The same weights on every device: made by arithmetic, not drawn.
inline void fill(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  double start = 0.3;
  for (auto& parameter : module.parameters()) {
    parameter.copy_(
        (torch::arange(parameter.numel(), at::kFloat) + start).sin().view(parameter.sizes()) * 0.5);
    start += 0.9;
  }
}

inline at::Tensor rows(std::int64_t count, double start = 0) {
  return (torch::arange(count * 4, at::kFloat) * 0.37 + start).cos().view({count, 4});
}

}  // namespace accelerate::testing
