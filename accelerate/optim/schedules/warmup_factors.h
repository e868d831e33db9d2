// The factors by which transformers' schedules multiply the base rate, as functions of the step.
// Source: transformers/optimization.py, with its order of operations.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "accelerate/optim/schedules/scheduler_state.h"

namespace accelerate {

/// The shape of a rise or fall: linear, half a cosine, or one minus a square root.
enum class RampType { linear, cosine, one_minus_sqrt };

template <>
struct EnumTexts<RampType> {
  static constexpr std::array<std::string_view, 3> kTexts = {"linear", "cosine", "1-sqrt"};
};

namespace detail {

using Factor = std::function<double(std::int64_t step)>;

/// The steps at which warm-up and training end.
struct WarmupSpan {
  std::int64_t warmup;
  std::int64_t training;
};

/// Rises linearly to 1 during warm-up, then stays 1.
[[nodiscard]] Factor constant_factor(std::int64_t warmup);
/// After warm-up, falls linearly to 0.
[[nodiscard]] Factor linear_factor(WarmupSpan span);
/// After warm-up, follows `cycles` cosine waves between 1 and `floor`.
[[nodiscard]] Factor cosine_factor(WarmupSpan span, double cycles, double floor);
/// After warm-up, falls `cycles` times from 1 to 0, each time by half a cosine.
[[nodiscard]] Factor restarts_factor(WarmupSpan span, double cycles);

struct Polynomial {
  double start, end, power;
};
/// After warm-up, falls to `end` by a power of the remaining fraction. These are rates, not
/// factors, since the original computes with rates.
[[nodiscard]] Factor polynomial_factor(WarmupSpan span, const Polynomial& rates);

/// After warm-up: 1 / √((t + timescale − warmup) / timescale).
[[nodiscard]] Factor inverse_sqrt_factor(std::int64_t warmup, std::int64_t timescale);

struct AheadCosine {
  double cycles, floor;
  std::optional<double> first;
};
/// As cosine_factor, one step ahead: the factor of step 0 is not 0, but `first` or 1 / warmup.
[[nodiscard]] Factor ahead_cosine_factor(WarmupSpan span, const AheadCosine& wave);

struct StableDecay {
  std::int64_t warmup, stable, decay;
  RampType warmup_type, decay_type;
  double floor, cycles;
};
/// Rises from `floor` to 1, stays there, and falls to `floor`.
[[nodiscard]] Factor stable_decay_factor(const StableDecay& phases);

}  // namespace detail
}  // namespace accelerate
