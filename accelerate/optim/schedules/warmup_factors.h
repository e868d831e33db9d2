// The factors by which transformers' schedules multiply the base rate, as functions of the step.
// Source: transformers/optimization.py, in its order of operations.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "accelerate/optim/schedules/scheduler_state.h"

namespace accelerate {

/// The shape of a rise or a fall: a line, half a cosine, or one minus a square root.
enum class RampType { linear, cosine, one_minus_sqrt };

template <>
struct EnumTexts<RampType> {
  static constexpr std::array<std::string_view, 3> kTexts = {"linear", "cosine", "1-sqrt"};
};

namespace detail {

using Factor = std::function<double(std::int64_t step)>;

/// Where warm-up ends and where training does, in steps.
struct WarmupSpan {
  std::int64_t warmup;
  std::int64_t training;
};

/// Up to 1 in a line, then 1.
[[nodiscard]] Factor constant_factor(std::int64_t warmup);
/// Then down to 0 in a line.
[[nodiscard]] Factor linear_factor(WarmupSpan span);
/// Then `cycles` cosine waves between 1 and `floor`.
[[nodiscard]] Factor cosine_factor(WarmupSpan span, double cycles, double floor);
/// Then `cycles` times from 1 to 0 by half a cosine.
[[nodiscard]] Factor restarts_factor(WarmupSpan span, double cycles);

/// Then down to `end` by the power of what is left; rates, not factors, as the original computes.
struct Polynomial {
  double start, end, power;
};
[[nodiscard]] Factor polynomial_factor(WarmupSpan span, const Polynomial& rates);

/// Then 1 / √((t + timescale − warmup) / timescale).
[[nodiscard]] Factor inverse_sqrt_factor(std::int64_t warmup, std::int64_t timescale);

/// As cosine_factor, one step ahead: step 0 has a rate, `first` or 1 / warmup.
struct AheadCosine {
  double cycles, floor;
  std::optional<double> first;
};
[[nodiscard]] Factor ahead_cosine_factor(WarmupSpan span, const AheadCosine& wave);

/// From `floor` to 1, 1 for a while, and down to `floor`.
struct StableDecay {
  std::int64_t warmup, stable, decay;
  RampType warmup_type, decay_type;
  double floor, cycles;
};
[[nodiscard]] Factor stable_decay_factor(const StableDecay& phases);

}  // namespace detail
}  // namespace accelerate
