// Where a CPU is slow in 16-bit types, its group computes in fp32.
#include "accelerate/optim/precision/half_on_cpu.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>

#include "accelerate/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate::detail {
namespace {

using testing::LogCapture;
using testing::message_of;
using testing::run_ranks_shared;
using testing::ScopedEnv;

// A CPU on which a 16-bit type takes `times` as long as fp32.
HalfOnCpu::Measure slower_by(double times) {
  return [times](at::ScalarType) {
    return HalfTimes{std::chrono::milliseconds(1), std::chrono::milliseconds(1) * times};
  };
}

at::ScalarType chosen(at::ScalarType asked, double times) {
  HalfOnCpu half(single_communicator(), slower_by(times));
  EXPECT_EQ(half.without_asking(asked), half.agree(asked));
  return half.agree(asked);
}

TEST(HalfOnCpu, IsGivenUpWhereItTakesMoreThanTwiceAsLongAsFp32) {
  const ScopedEnv unset("ACCELERATE_CPU_HALF", nullptr);
  const LogCapture quiet;
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    EXPECT_EQ(chosen(type, 0.5), type);
    EXPECT_EQ(chosen(type, 2), type);
    EXPECT_EQ(chosen(type, 2.1), at::kFloat);
  }
  EXPECT_EQ(chosen(at::kFloat, 100), at::kFloat);
  EXPECT_EQ(chosen(at::kDouble, 100), at::kDouble);
}

TEST(HalfOnCpu, OneSlowRankDecidesForAllAndIsAskedOnce) {
  const ScopedEnv unset("ACCELERATE_CPU_HALF", nullptr);
  const LogCapture quiet;
  std::atomic<int> measured = 0;
  run_ranks_shared(3, [&](const std::shared_ptr<Communicator>& comm) {
    HalfOnCpu half(comm, [&](at::ScalarType type) {
      ++measured;
      return slower_by(comm->rank() == 1 && type == at::kHalf ? 30 : 1)(type);
    });
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(half.agree(at::kHalf), at::kFloat);
      EXPECT_EQ(half.agree(at::kBFloat16), at::kBFloat16);
      EXPECT_EQ(half.without_asking(at::kHalf), at::kFloat);
    }
  });
  EXPECT_EQ(measured, 6);
}

TEST(HalfOnCpu, SaysOnceHowSlowItIsAndHowToInsist) {
  const ScopedEnv unset("ACCELERATE_CPU_HALF", nullptr);
  const LogCapture log;
  HalfOnCpu half(single_communicator(), slower_by(42.34));
  half.agree(at::kBFloat16);
  half.agree(at::kBFloat16);
  ASSERT_EQ(log.lines().size(), 1U);
  for (const char* part : {"fp32 instead of bf16", "42.3 times", "ACCELERATE_CPU_HALF=native"}) {
    EXPECT_NE(log.lines()[0].find(part), std::string::npos) << log.lines()[0];
  }
}

TEST(HalfOnCpu, TheVariableDecidesWithoutMeasuring) {
  const LogCapture log;
  const HalfOnCpu::Measure never = [](at::ScalarType) -> HalfTimes {
    throw UsageError("measured although the variable decides");
  };
  const std::pair<const char*, at::ScalarType> cases[] = {{"native", at::kBFloat16},
                                                          {"float32", at::kFloat}};
  for (const auto& [word, expected] : cases) {
    const ScopedEnv forced("ACCELERATE_CPU_HALF", word);
    HalfOnCpu half(single_communicator(), never);
    EXPECT_EQ(half.without_asking(at::kBFloat16), expected) << word;
    EXPECT_EQ(half.agree(at::kBFloat16), expected) << word;
  }
  EXPECT_TRUE(log.lines().empty()) << "what was asked for is no warning";
  const ScopedEnv wrong("ACCELERATE_CPU_HALF", "fast");
  const auto message = message_of<ConfigError>([] { const HalfOnCpu half(single_communicator()); });
  EXPECT_NE(message.find("ACCELERATE_CPU_HALF is 'fast'; allowed is native or float32"),
            std::string::npos)
      << message;
}

TEST(HalfOnCpu, MeasuresOnceAndDrawsNoRandomNumber) {
  torch::manual_seed(3);
  const auto expected = torch::rand({1}).item<float>();
  torch::manual_seed(3);
  const HalfTimes first = measure_half(at::kBFloat16), second = measure_half(at::kBFloat16);
  EXPECT_EQ(torch::rand({1}).item<float>(), expected);
  EXPECT_GT(first.single.count(), 0);
  EXPECT_GT(first.half.count(), 0);
  EXPECT_EQ(first.half, second.half);
}

}  // namespace
}  // namespace accelerate::detail
