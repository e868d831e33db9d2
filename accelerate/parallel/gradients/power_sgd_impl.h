// What both kinds of PowerSGD need: linear algebra, random numbers, and what is remembered between
// steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_map>

#include "accelerate/parallel/gradients/power_sgd.h"

namespace accelerate::detail {

/// Makes the columns of `matrices` ([batch, rows, columns ≤ rows]) orthonormal, in place: by
/// Gram-Schmidt for up to two columns and for 16-bit dtypes, else by QR. Gram-Schmidt adds
/// `epsilon` to the norm of a column. A column of zeros stays zero; upstream's becomes NaN.
void orthogonalize(const at::Tensor& matrices, double epsilon);

/// Draws seeds that differ from step to step and agree on all ranks: the numbers of numpy's
/// RandomState(seed).randint(1000000000).
class StepSeeds {
 public:
  explicit StepSeeds(std::uint32_t seed) : generator_(seed) {}
  std::uint64_t next();

 private:
  std::mt19937 generator_;
};

/// Fills tensors with standard normal numbers, the same as torch.randn after
/// torch.manual_seed(seed). Leaves the default generator alone.
class NormalFiller {
 public:
  explicit NormalFiller(std::uint64_t seed);
  void fill(const at::Tensor& tensor);

 private:
  at::Generator generator_;
};

/// The factors of one bucket, and what their product lost in the last step.
struct LowRankMemory {
  at::Tensor p, q;
  at::Tensor error;
};

class PowerSGDState {
 public:
  /// Throws ConfigError for options out of range.
  explicit PowerSGDState(const PowerSGDOptions& options);

  [[nodiscard]] const PowerSGDOptions& options() const { return options_; }

  /// Whether the step that `bucket` belongs to compresses. Counts steps, and logs when compression
  /// starts.
  [[nodiscard]] bool compresses(const GradientBucket& bucket);

  [[nodiscard]] LowRankMemory& memory(const GradientBucket& bucket) {
    return memory_[bucket.index];
  }

  /// Adds what the last step lost to `gradient`. Returns a copy of the sum for remember_error;
  /// undefined without error feedback.
  [[nodiscard]] at::Tensor add_error(LowRankMemory& memory, const at::Tensor& gradient) const;

  /// Remembers what this step lost. `wanted`: the tensor that add_error returned; `sent`: the
  /// gradient after decompression.
  void remember_error(LowRankMemory& memory, const at::Tensor& wanted,
                      const at::Tensor& sent) const;

  /// Whether the Q of `memory` must be drawn again.
  [[nodiscard]] bool needs_new_factors(const LowRankMemory& memory) const;
  [[nodiscard]] NormalFiller new_random_numbers() { return NormalFiller(seeds_.next()); }

  /// Counts elements, which report() logs with the last bucket of a step.
  void count(std::int64_t before, std::int64_t after);
  void report(const GradientBucket& bucket);

 private:
  PowerSGDOptions options_;
  StepSeeds seeds_;
  std::unordered_map<std::size_t, LowRankMemory> memory_;
  std::int64_t step_ = 0;  // steps whose last bucket has started
  std::int64_t next_report_ = 0;
  std::int64_t before_ = 0;  // elements, since the start
  std::int64_t after_ = 0;
};

}  // namespace accelerate::detail
