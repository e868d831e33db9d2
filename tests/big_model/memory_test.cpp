// What giving memory to a model takes at most: counted where LibTorch allocates.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>

#include "accelerate/big_model/init_on_device.h"
#include "accelerate/big_model/materialise.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

constexpr std::int64_t kWidth = 512;
constexpr std::size_t kLayers = 6, kTensor = kWidth * kWidth * sizeof(float);
constexpr std::size_t kModel = kLayers * (kTensor + kWidth * sizeof(float));
constexpr std::size_t kSmall = 256 << 10;  // Biases, and 5 KiB for every draw of random numbers.

// Counts the bytes that tensors of this thread's test have, now and at most.
class CountedMemory : public at::Allocator {
 public:
  CountedMemory() : inner_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~CountedMemory() override { c10::SetCPUAllocator(inner_, kPriority); }
  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;

  at::DataPtr allocate(std::size_t bytes) override {
    auto block = std::make_unique<Block>(Block{inner_->allocate(bytes), bytes, this});
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    void* data = block->memory.get();
    return {data, block.release(), &release, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  [[nodiscard]] std::size_t peak() const { return peak_; }

 private:
  struct Block {
    at::DataPtr memory;
    std::size_t bytes;
    CountedMemory* owner;
  };
  static constexpr std::uint8_t kPriority = 100;
  static void release(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    block->owner->live_ -= block->bytes;
  }
  at::Allocator* inner_;
  std::size_t live_ = 0, peak_ = 0;
};

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
