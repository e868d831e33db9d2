// What giving memory to a model takes at most: counted where LibTorch allocates.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/tensor/construction/init_on_device.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/counted_memory.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::CountedMemory;

constexpr std::int64_t kWidth = 512;
constexpr std::size_t kLayers = 6, kTensor = kWidth * kWidth * sizeof(float);
constexpr std::size_t kModel = kLayers * (kTensor + kWidth * sizeof(float));
constexpr std::size_t kSmall = 256 << 10;  // Biases, and 5 KiB for every draw of random numbers.

torch::nn::Sequential empty_model() {
  const auto scope = init_empty_weights();
  torch::nn::Sequential model;
  for (std::size_t i = 0; i < kLayers; ++i) model->push_back(torch::nn::Linear(kWidth, kWidth));
  return model;
}

TEST(BigModelMemory, ConstructionTakesNone) {
  CountedMemory memory;
  const auto model = empty_model();
  EXPECT_LT(memory.peak(), kSmall);
}

TEST(BigModelMemory, MaterialisingTakesTheModelAndOneTensor) {
  CountedMemory memory;
  {
    auto model = empty_model();
    materialise(*model);
  }
  EXPECT_GE(memory.peak(), kModel);
  EXPECT_LE(memory.peak(), kModel + kTensor + kSmall);
}

// The numbers of the parts before it are drawn and thrown away, one tensor at a time.
TEST(BigModelMemory, MaterialisingTheLastPartTakesThatPartAndOneTensor) {
  CountedMemory memory;
  {
    auto model = empty_model();
    materialise(*model->children().back());
  }
  EXPECT_LE(memory.peak(), 2 * kTensor + kSmall);
}

TEST(BigModelMemory, LoadingTakesTheModelAndOneTensor) {
  const testing::TemporaryFolder folder;
  {
    auto model = empty_model();
    materialise(*model);
    save_tensors(state_dict(view_of(*model)), folder.path() / "model.safetensors");
  }
  CountedMemory memory;
  {
    auto model = empty_model();
    load_checkpoint_in_model(*model, folder.path());
  }
  EXPECT_GE(memory.peak(), kModel);
  EXPECT_LE(memory.peak(), kModel + kTensor + kSmall);
}

}  // namespace
}  // namespace accelerate
