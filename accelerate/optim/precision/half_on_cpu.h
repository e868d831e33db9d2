// Whether this CPU is fast at 16-bit types. Without AVX512-BF16, AMX or similar instructions
// LibTorch multiplies 16-bit matrices in a loop, which takes up to sixty times as long as in fp32.
#pragma once

#include <c10/core/ScalarType.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// How long a product of two small matrices takes in fp32 and in a 16-bit type.
struct HalfTimes {
  std::chrono::duration<double, std::milli> single{};
  std::chrono::duration<double, std::milli> half{};
};

/// Times the product in fp32 and in `type` on this CPU. Draws no random number. Thread-safe. Cost:
/// about 30 ms where `type` is slow, once per process and type.
[[nodiscard]] HalfTimes measure_half(at::ScalarType type);

/// Decides in which type the ranks of a group compute on the CPU when a policy names a 16-bit type.
class HalfOnCpu {
 public:
  using Measure = std::function<HalfTimes(at::ScalarType)>;

  /// Reads ACCELERATE_CPU_HALF. `native` computes in 16 bits and `float32` in fp32, both without a
  /// measurement; unset, `measure` decides. Throws ConfigError for another value.
  explicit HalfOnCpu(std::shared_ptr<Communicator> communicator, Measure measure = measure_half);

  /// Returns the type to compute in when the policy says `asked`; all ranks get the same. Returns
  /// fp32 when any rank takes more than twice as long in `asked` as in fp32, which rank 0 logs.
  /// Otherwise returns `asked`. [collective] at the first call for each 16-bit type: one all-reduce
  /// of a number.
  at::ScalarType agree(at::ScalarType asked);

  /// Returns the type that agree() returned, or this rank's own choice if agree() has not run.
  /// Local.
  [[nodiscard]] at::ScalarType without_asking(at::ScalarType asked) const;

 private:
  [[nodiscard]] double slowdown(at::ScalarType type) const;

  std::shared_ptr<Communicator> communicator_;
  Measure measure_;
  std::optional<double> forced_slowdown_;  // Set by ACCELERATE_CPU_HALF.
  std::map<at::ScalarType, at::ScalarType> agreed_;
};

}  // namespace accelerate::detail
