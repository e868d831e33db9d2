// What memory meters see, and what release_memory gives back.
#include "accelerate/watch/profiler/memory_meter.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace accelerate {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// Every page of it is touched.
at::Tensor block(std::int64_t mebibytes) {
  return torch::ones({mebibytes * kMiB}, at::kByte);
}

class MemoryMeters : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!reset_peak_memory()) GTEST_SKIP() << "this kernel does not reset VmHWM";
  }
};

TEST(Memory, TheSystemTellsWhatTheProcessUses) {
  const auto held = block(64);
  const auto memory = host_memory();
  EXPECT_GE(memory.resident_bytes, 64 * kMiB);
  EXPECT_GE(memory.peak_resident_bytes, memory.resident_bytes - kMiB);
  EXPECT_GE(proportional_host_bytes(), 64 * kMiB);
  EXPECT_EQ(device_memory(c10::kCPU).allocated_bytes, 0);
}

TEST_F(MemoryMeters, TellBeforeNowAndThePeakInBetween) {
  clear_device_cache();
  const MemoryMeter meter;
  const auto kept = block(48);
  {
    const auto passing = block(96);
  }
  clear_device_cache();
  const auto report = meter.read();
  EXPECT_GE(report.used_bytes(), 40 * kMiB);
  EXPECT_LT(report.used_bytes(), 120 * kMiB) << "the block that is gone does not count";
  EXPECT_GE(report.peaked_bytes(), 136 * kMiB);
}

TEST_F(MemoryMeters, ForgetThePeaksOfEarlierTimes) {
  {
    const auto passing = block(128);
  }
  clear_device_cache();
  const MemoryMeter meter;
  EXPECT_LT(meter.read().peaked_bytes(), 64 * kMiB);
}

TEST_F(MemoryMeters, KeepTheirPeakWhenOneInsideResetsTheCounter) {
  const MemoryMeter outer;
  {
    const auto passing = block(128);
  }
  clear_device_cache();
  const MemoryMeter inner;
  EXPECT_LT(inner.read().peaked_bytes(), 64 * kMiB);
  EXPECT_GE(outer.read().peaked_bytes(), 120 * kMiB);
}

TEST_F(MemoryMeters, ReportAtTheEndAlsoWhenLeftByAnException) {
  MemoryReport last;
  try {
    const MemoryMeter meter(c10::kCPU, [&last](const MemoryReport& report) { last = report; });
    const auto passing = block(64);
    throw std::runtime_error("left");
  } catch (const std::runtime_error&) {
  }
  EXPECT_GE(last.peaked_bytes(), 56 * kMiB);
  {
    const MemoryMeter meter(c10::kCPU, [](const MemoryReport&) { throw 1; });
  }
}

TEST(ReleaseMemory, DropsObjectsOfEveryKindAndGivesThePagesBack) {
  at::Tensor tensor = block(64);
  std::vector<at::Tensor> many = {block(64)};
  torch::nn::Linear layer(4, 4);
  auto shared = std::make_shared<at::Tensor>(block(16));
  const std::weak_ptr<at::Tensor> watched = shared;
  const auto before = host_memory().resident_bytes;
  release_memory(tensor, many, layer, shared);
  EXPECT_FALSE(tensor.defined());
  EXPECT_TRUE(many.empty());
  EXPECT_TRUE(layer.is_empty());
  EXPECT_TRUE(watched.expired());
  EXPECT_LT(host_memory().resident_bytes, before - 100 * kMiB);
}

TEST(Memory, BytesAreWrittenForPeople) {
  EXPECT_EQ(convert_bytes(0), "0 B");
  EXPECT_EQ(convert_bytes(1023), "1023 B");
  EXPECT_EQ(convert_bytes(1536), "1.5 KiB");
  EXPECT_EQ(convert_bytes(-3 * kMiB), "-3.0 MiB");
  EXPECT_EQ(convert_bytes(5'368'709'120), "5.0 GiB");
  EXPECT_EQ(to_string(MemoryReport{kMiB, 2 * kMiB, 4 * kMiB, 0, 0, 0}),
            "host: 1.0 MiB before, 2.0 MiB now, 4.0 MiB at the peak");
  EXPECT_EQ(to_string(MemoryReport{0, 0, 0, 0, kMiB, kMiB}),
            "host: 0 B before, 0 B now, 0 B at the peak; "
            "device: 0 B before, 1.0 MiB now, 1.0 MiB at the peak");
}

TEST(Memory, OfAGpuIsCountedByTheAllocator) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const c10::Device gpu(c10::kCUDA, 0);
  const MemoryMeter meter(gpu);
  const auto kept = torch::ones({8 * kMiB}, at::TensorOptions(at::kByte).device(gpu));
  {
    const auto passing = torch::ones({32 * kMiB}, at::TensorOptions(at::kByte).device(gpu));
  }
  EXPECT_GE(device_memory(gpu).reserved_bytes, 40 * kMiB);
  clear_device_cache();
  const auto report = meter.read();
  EXPECT_GE(report.device_peak_bytes - report.device_before_bytes, 40 * kMiB);
  EXPECT_EQ(report.device_now_bytes - report.device_before_bytes, 8 * kMiB);
}

}  // namespace
}  // namespace accelerate
