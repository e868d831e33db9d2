// Whether this CPU is any good at 16-bit types. Without AVX512-BF16, AMX or their like LibTorch
// multiplies matrices of such a type in a loop, which takes up to sixty times as long as in fp32.
#pragma once

#include <c10/core/ScalarType.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// How long a product of two small matrices takes in fp32, and in a 16-bit type.
struct HalfTimes {
  std::chrono::duration<double, std::milli> single{};
  std::chrono::duration<double, std::milli> half{};
};

/// Times the product in fp32 and in `type` on this CPU. Draws no random number.
/// Cost: some 30 ms where `type` is slow; once a process for each type. Thread-safe.
[[nodiscard]] HalfTimes measure_half(at::ScalarType type);

/// The types in which the ranks of a group compute on the CPU where a policy names a 16-bit one.
class HalfOnCpu {
 public:
  using Measure = std::function<HalfTimes(at::ScalarType)>;

  /// Reads ACCELERATE_CPU_HALF: `native` computes in 16 bits and measures nothing, `float32`
  /// computes in fp32; unset, `measure` decides. Throws ConfigError for another value.
  explicit HalfOnCpu(std::shared_ptr<Communicator> communicator, Measure measure = measure_half);

  /// The type to compute in where the policy says `asked`: fp32 when `asked` takes any rank more
  /// than twice as long as fp32, which rank 0 logs; otherwise `asked`. All ranks get the same.
  /// [collective] at the first call for a 16-bit type: one all-reduce of a number.
  at::ScalarType agree(at::ScalarType asked);

  /// As agree(), but asks nobody: what was agreed on, else what this rank alone would choose.
  [[nodiscard]] at::ScalarType without_asking(at::ScalarType asked) const;

 private:
  [[nodiscard]] double slowdown(at::ScalarType type) const;

  std::shared_ptr<Communicator> communicator_;
  Measure measure_;
  std::optional<double> forced_slowdown_;  // What the variable says in place of a measurement.
  std::map<at::ScalarType, at::ScalarType> agreed_;
};

}  // namespace accelerate::detail
