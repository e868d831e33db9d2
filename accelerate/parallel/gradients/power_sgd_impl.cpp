#include "accelerate/parallel/gradients/power_sgd_impl.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"

namespace accelerate::detail {
namespace {

void require(bool allowed, const char* option, const std::string& found, const char* range) {
  if (allowed) return;
  throw ConfigError(std::string("PowerSGD: ") + option + " is " + found + "; it must be " + range);
}

void check(const PowerSGDOptions& options) {
  require(options.matrix_approximation_rank >= 1, "matrix_approximation_rank",
          std::to_string(options.matrix_approximation_rank), "at least 1 (1 to 4 is usual)");
  require(options.start_powerSGD_iter >= 0, "start_powerSGD_iter",
          std::to_string(options.start_powerSGD_iter), "at least 0 (10 % of all steps is usual)");
  require(options.min_compression_rate > 0 && std::isfinite(options.min_compression_rate),
          "min_compression_rate", std::to_string(options.min_compression_rate),
          "a finite number greater than 0");
  require(
      options.orthogonalization_epsilon >= 0 && std::isfinite(options.orthogonalization_epsilon),
      "orthogonalization_epsilon", std::to_string(options.orthogonalization_epsilon),
      "a finite number, at least 0 (1e-8 is usual)");
}

void gram_schmidt(const at::Tensor& matrices, double epsilon) {
  const auto columns = matrices.size(2);
  for (std::int64_t i = 0; i < columns; ++i) {
    const auto column = matrices.narrow(2, i, 1);
    auto norm = at::norm(column, 2, /*dim=*/{1}, /*keepdim=*/true);
    if (epsilon != 0) {
      norm = norm + epsilon;
    } else {
      norm = norm.masked_fill(norm == 0, 1);
    }
    column.div_(norm);
    if (i + 1 == columns) return;
    const auto rest = matrices.narrow(2, i + 1, columns - i - 1);
    rest.sub_(at::sum(column * rest, /*dim=*/{1}, /*keepdim=*/true) * column);
  }
}

}  // namespace

PowerSGDState::PowerSGDState(const PowerSGDOptions& options)
    : options_(options), seeds_(options.random_seed) {
  check(options_);
}

bool PowerSGDState::compresses(const GradientBucket& bucket) {
  const auto step = step_;
  if (bucket.is_last && ++step_ == options_.start_powerSGD_iter) {
    get_logger("accelerate.parallel")
        .info("PowerSGD starts after " + std::to_string(step_) + " steps");
  }
  return step >= options_.start_powerSGD_iter;
}

at::Tensor PowerSGDState::add_error(LowRankMemory& memory, const at::Tensor& gradient) const {
  if (!options_.use_error_feedback) return {};
  if (memory.error.defined()) gradient.add_(memory.error);
  return gradient.clone();
}

void PowerSGDState::remember_error(LowRankMemory& memory, const at::Tensor& wanted,
                                   const at::Tensor& sent) const {
  if (wanted.defined()) memory.error = wanted - sent;
}

bool PowerSGDState::needs_new_factors(const LowRankMemory& memory) const {
  return !options_.warm_start || !memory.q.defined();
}

void PowerSGDState::count(std::int64_t before, std::int64_t after) {
  before_ += before;
  after_ += after;
}

void PowerSGDState::report(const GradientBucket& bucket) {
  if (!bucket.is_last || step_ < next_report_) return;
  next_report_ = step_ + std::max<std::int64_t>(1, options_.compression_stats_logging_frequency);
  get_logger("accelerate.parallel")
      .info("PowerSGD after " + std::to_string(step_) + " steps: " + std::to_string(before_) +
            " elements were sent as " + std::to_string(after_));
}

void orthogonalize(const at::Tensor& matrices, double epsilon) {
  const auto dtype = matrices.scalar_type();
  if (matrices.size(2) <= 2 || dtype == at::kHalf || dtype == at::kBFloat16) {
    gram_schmidt(matrices, epsilon);
  } else {
    matrices.copy_(std::get<0>(at::linalg_qr(matrices)));
  }
}

std::uint64_t StepSeeds::next() {
  constexpr std::uint32_t kBelow = 1'000'000'000;
  constexpr std::uint32_t kMask = (std::uint32_t{1} << 30) - 1;  // the bits that kBelow needs
  for (;;) {
    const auto drawn = static_cast<std::uint32_t>(generator_()) & kMask;
    if (drawn < kBelow) return drawn;
  }
}

NormalFiller::NormalFiller(std::uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

// Drawn on the CPU, so that all devices get the same numbers.
void NormalFiller::fill(const at::Tensor& tensor) {
  tensor.copy_(at::randn(tensor.sizes(), generator_, tensor.options().device(at::kCPU)));
}

}  // namespace accelerate::detail
