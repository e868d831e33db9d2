#include "accelerate/optim/schedules/warmup_factors.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace accelerate::detail {
namespace {

using std::numbers::pi;

double real(std::int64_t value) {
  return static_cast<double>(value);
}

double at_least_one(std::int64_t value) {
  return real(std::max<std::int64_t>(1, value));
}

double warming_up(std::int64_t step, std::int64_t warmup) {
  return real(step) / at_least_one(warmup);
}

// 0 at the end of warm-up, 1 at the end of training, more after it.
double progress(std::int64_t step, WarmupSpan span) {
  return real(step - span.warmup) / at_least_one(span.training - span.warmup);
}

// `cycles` waves from 1 down to `floor` and back.
double wave(double progress, double cycles, double floor) {
  const double factor = 0.5 * (1.0 + std::cos(pi * cycles * 2.0 * progress));
  return std::max(0.0, factor * (1 - floor) + floor);
}

}  // namespace

Factor constant_factor(std::int64_t warmup) {
  return [warmup](std::int64_t step) { return step < warmup ? warming_up(step, warmup) : 1.0; };
}

Factor linear_factor(WarmupSpan span) {
  return [span](std::int64_t step) {
    if (step < span.warmup) return warming_up(step, span.warmup);
    return std::max(0.0, real(span.training - step) / at_least_one(span.training - span.warmup));
  };
}

Factor cosine_factor(WarmupSpan span, double cycles, double floor) {
  return [=](std::int64_t step) {
    if (step < span.warmup) return warming_up(step, span.warmup);
    return wave(progress(step, span), cycles, floor);
  };
}

Factor restarts_factor(WarmupSpan span, double cycles) {
  return [=](std::int64_t step) {
    if (step < span.warmup) return warming_up(step, span.warmup);
    const double done = progress(step, span);
    if (done >= 1.0) return 0.0;
    return std::max(0.0, 0.5 * (1.0 + std::cos(pi * std::fmod(cycles * done, 1.0))));
  };
}

Factor polynomial_factor(WarmupSpan span, const Polynomial& rates) {
  return [=](std::int64_t step) {
    if (step < span.warmup) return warming_up(step, span.warmup);
    const std::int64_t steps = span.training - span.warmup;
    // Without steps to decay in, training ends with warm-up (upstream divides by zero).
    if (step > span.training || steps == 0) return rates.end / rates.start;
    const double left = 1 - real(step - span.warmup) / real(steps);
    const double decay = (rates.start - rates.end) * std::pow(left, rates.power) + rates.end;
    return decay / rates.start;
  };
}

Factor inverse_sqrt_factor(std::int64_t warmup, std::int64_t timescale) {
  return [=](std::int64_t step) {
    if (step < warmup) return warming_up(step, warmup);
    return 1.0 / std::sqrt(real(step + timescale - warmup) / real(timescale));
  };
}

Factor ahead_cosine_factor(WarmupSpan span, const AheadCosine& cosine) {
  return [=](std::int64_t step) {
    if (step >= span.warmup) {
      const double done =
          (real(step - span.warmup) + 1.0) / at_least_one(span.training - span.warmup);
      return wave(done, cosine.cycles, cosine.floor);
    }
    if (!cosine.first) return (real(step) + 1.0) / at_least_one(span.warmup);
    return *cosine.first + (1.0 - *cosine.first) * real(step) / at_least_one(span.warmup - 1);
  };
}

namespace {

double rise(double progress, RampType type) {
  switch (type) {
    case RampType::linear:
      return progress;
    case RampType::cosine:
      return 0.5 * (1.0 - std::cos(pi * progress));
    case RampType::one_minus_sqrt:
      return 1.0 - std::sqrt(1.0 - progress);
  }
  return 1.0;
}

double fall(double progress, const StableDecay& phases) {
  switch (phases.decay_type) {
    case RampType::linear:
      return 1.0 - progress;
    case RampType::cosine:
      return 0.5 * (1.0 + std::cos(pi * phases.cycles * 2.0 * progress));
    case RampType::one_minus_sqrt:
      return 1.0 - std::sqrt(progress);
  }
  return 0.0;
}

}  // namespace

Factor stable_decay_factor(const StableDecay& phases) {
  return [=](std::int64_t step) {
    const auto above_floor = [&](double factor) {
      return std::max(0.0, factor * (1.0 - phases.floor) + phases.floor);
    };
    if (step < phases.warmup) {
      return above_floor(rise(warming_up(step, phases.warmup), phases.warmup_type));
    }
    step -= phases.warmup + phases.stable;
    if (step < 0) return 1.0;
    if (step >= phases.decay) return phases.floor;
    return above_floor(fall(real(step) / at_least_one(phases.decay), phases));
  };
}

}  // namespace accelerate::detail
