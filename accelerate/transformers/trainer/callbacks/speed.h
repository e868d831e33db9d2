// Run time and rates, named and rounded as Transformers does.
#pragma once

#include <chrono>
#include <cmath>
#include <optional>
#include <string>

#include "accelerate/transformers/trainer/trainer_state.h"

namespace accelerate::detail {

[[nodiscard]] inline double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

struct Amounts {
  std::optional<double> samples = {}, steps = {}, tokens = {};
};

/// Adds <split>_runtime, in seconds, and <split>_samples_per_second and so on to `metrics`.
/// Source: `speed_metrics` of Transformers.
inline void add_speed(LogValues& metrics, const std::string& split, double seconds,
                      const Amounts& done) {
  metrics.set(split + "_runtime", rounded(seconds, 4));
  if (seconds <= 0) return;
  const auto rate = [&](const char* what, const std::optional<double>& amount) {
    if (amount) metrics.set(split + what, rounded(*amount / seconds, 3));
  };
  rate("_samples_per_second", done.samples);
  rate("_steps_per_second", done.steps);
  rate("_tokens_per_second", done.tokens);
}

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace accelerate::detail
