#include "accelerate/optim/precision/half_on_cpu.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/optim/precision/autocast.h"

namespace accelerate::detail {
namespace {

using Duration = std::chrono::duration<double, std::milli>;

constexpr auto kVariable = "ACCELERATE_CPU_HALF";
constexpr double kTolerated = 2;  // Largest slowdown at which a 16-bit type is used.
constexpr double kNever = 0, kAlways = std::numeric_limits<double>::infinity();
constexpr int kRows = 64, kColumns = 256, kRounds = 3;

bool has_16_bits(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

std::string word_of(at::ScalarType type) {
  return type == at::kHalf ? "fp16" : "bf16";
}

Duration time_of_product(const at::Tensor& left, const at::Tensor& right) {
  const auto start = std::chrono::steady_clock::now();
  (void)at::mm(left, right);
  return std::chrono::steady_clock::now() - start;
}

// Returns the fastest of several rounds. The types take turns, so that other load on the machine
// matters little.
HalfTimes time_products(at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const AutocastScope as_given(at::kCPU, type, {.enabled = false});
  const auto matrix = [](int rows, at::ScalarType of) {
    return at::ones({rows, kColumns}, at::TensorOptions(of).device(at::kCPU));
  };
  const auto left = matrix(kRows, at::kFloat), right = matrix(kColumns, at::kFloat);
  const auto half_left = matrix(kRows, type), half_right = matrix(kColumns, type);
  (void)time_of_product(left, right);  // The first product of a type prepares kernels.
  (void)time_of_product(half_left, half_right);
  HalfTimes best{Duration::max(), Duration::max()};
  for (int round = 0; round < kRounds; ++round) {
    best.single = std::min(best.single, time_of_product(left, right));
    best.half = std::min(best.half, time_of_product(half_left, half_right));
  }
  return best;
}

void log_float32(at::ScalarType asked, double slowdown) {
  const std::string half = word_of(asked);
  const auto log = get_logger("accelerate.precision");
  if (slowdown == kAlways) {
    return log.info("forwards compute in fp32 instead of " + half + ", as " + kVariable +
                    "=float32 asks");
  }
  log.warning(
      "forwards compute in fp32 instead of " + half + ": a product of matrices takes " +
      c10::str(std::round(slowdown * 10) / 10) + " times as long in " + half +
      " on a CPU of this group, and fp32 is at least as exact. Parameters, master weights and "
      "files stay as the policy says. " +
      kVariable + "=native insists on " + half);
}

}  // namespace

HalfTimes measure_half(at::ScalarType type) {
  static std::mutex mutex;
  static std::map<at::ScalarType, HalfTimes> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(type);
  if (found != known.end()) return found->second;
  return known.emplace(type, time_products(type)).first->second;
}

HalfOnCpu::HalfOnCpu(std::shared_ptr<Communicator> communicator, Measure measure)
    : communicator_(std::move(communicator)), measure_(std::move(measure)) {
  const std::string word = env(kVariable).value_or("");
  if (word == "native") {
    forced_slowdown_ = kNever;
  } else if (word == "float32") {
    forced_slowdown_ = kAlways;
  } else if (!word.empty()) {
    throw ConfigError(std::string(kVariable) + " is '" + word +
                      "'; allowed is native or float32, or nothing: then one product of matrices "
                      "is timed");
  }
}

double HalfOnCpu::slowdown(at::ScalarType type) const {
  if (forced_slowdown_) return *forced_slowdown_;
  const HalfTimes times = measure_(type);
  return times.half / times.single;
}

at::ScalarType HalfOnCpu::agree(at::ScalarType asked) {
  if (!has_16_bits(asked)) return asked;
  const auto known = agreed_.find(asked);
  if (known != agreed_.end()) return known->second;
  const auto worst = at::scalar_tensor(slowdown(asked), at::kDouble).view({1});
  communicator_->all_reduce(worst, ReduceOp::max).wait();
  const bool loses = worst.item<double>() > kTolerated;
  if (loses) log_float32(asked, worst.item<double>());
  return agreed_.emplace(asked, loses ? at::kFloat : asked).first->second;
}

at::ScalarType HalfOnCpu::without_asking(at::ScalarType asked) const {
  if (!has_16_bits(asked)) return asked;
  const auto known = agreed_.find(asked);
  if (known != agreed_.end()) return known->second;
  return slowdown(asked) > kTolerated ? at::kFloat : asked;
}

}  // namespace accelerate::detail
