#include "accelerate/optim/precision/grad_scaler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_error.h"
#include "accelerate/base/logger.h"
#include "accelerate/parallel/offload/slice_stream.h"

namespace accelerate {
namespace {

void require(bool holds, const char* name, double found, const char* allowed) {
  if (holds) return;
  throw ConfigError("GradScaler: " + std::string(name) + " is " + c10::str(found) +
                    "; allowed is " + allowed);
}

void require_scale(const char* name, double scale) {
  const auto narrow = static_cast<float>(scale);
  require(std::isfinite(narrow) && narrow > 0, name, scale,
          "a number above 0 that is finite in fp32");
}

void require_factors(double growth, double backoff, std::int64_t interval) {
  require(std::isfinite(growth) && growth > 1, "growth_factor", growth, "a number above 1");
  require(backoff > 0 && backoff < 1, "backoff_factor", backoff, "a number between 0 and 1");
  require(interval > 0, "growth_interval", static_cast<double>(interval), "a whole number above 0");
}

void require_count(const char* name, std::int64_t found, std::int64_t least) {
  require(found >= least && found <= std::numeric_limits<int>::max(), name,
          static_cast<double>(found),
          least == 0 ? "a whole number from 0" : "a whole number from 1");
}

// Warns each time the scale falls below 1, or should fall below its minimum: then even the unscaled
// loss was too large.
void warn_of_small_scale(double before, double after, double min_scale) {
  const bool is_least = min_scale > 0 && before == min_scale;
  if (!is_least && (before < 1 || after >= 1)) return;
  get_logger("accelerate.precision")
      .warning(
          "fp16 gradients overflow in every step, so these steps are skipped; the loss scale has " +
          std::string(is_least ? "reached its minimum" : "fallen below 1") +
          ". The loss is NaN or infinite, or too large for fp16: look for a division "
          "by 0, lower the learning rate, or train with mixed_precision bf16");
}

// Returns the stored values of a gradient. A sparse gradient can hold NaN and inf nowhere else.
at::Tensor values_of(const at::Tensor& gradient) {
  return gradient.is_sparse() ? gradient._values() : gradient;
}

// Gradients by device and dtype: one kernel call takes tensors of one device and dtype.
using Kinds = std::map<std::pair<std::string, at::ScalarType>, std::vector<at::Tensor>>;

Kinds by_kind(const std::vector<at::Tensor>& gradients) {
  Kinds kinds;
  for (const auto& gradient : gradients) {
    if (!gradient.defined()) continue;
    if (gradient.scalar_type() == at::kHalf) {
      throw UsageError(
          "a gradient of shape " + std::string(c10::str(gradient.sizes())) +
              " is fp16 and cannot be unscaled without losing it: mixed precision needs parameters "
              "in "
              "fp32, which autocast converts as it computes. Leave out model->to(torch::kHalf), or "
              "train with mixed_precision bf16, which needs no scaling",
          error_name::kMixedPrecision);
    }
    kinds[{gradient.device().str(), gradient.scalar_type()}].push_back(values_of(gradient));
  }
  return kinds;
}

}  // namespace

GradScaler::GradScaler(c10::Device device, std::shared_ptr<Communicator> communicator,
                       const GradScalerKwargs& kwargs)
    : kwargs_(kwargs), communicator_(std::move(communicator)) {
  require_scale("init_scale", kwargs.init_scale);
  require_factors(kwargs.growth_factor, kwargs.backoff_factor, kwargs.growth_interval);
  require(kwargs.min_scale >= 0 && kwargs.min_scale <= kwargs.init_scale, "min_scale",
          kwargs.min_scale, "a number from 0 to init_scale");
  require_count("hysteresis", kwargs.hysteresis, 1);
  require_count("growth_delay", kwargs.growth_delay, 0);
  scale_ = at::full({1}, kwargs.init_scale, at::TensorOptions(at::kFloat).device(device));
  growth_tracker_ = at::full({1}, -kwargs.growth_delay, at::TensorOptions(at::kInt).device(device));
  hysteresis_left_ = kwargs.hysteresis;
}

double GradScaler::get_scale() const {
  return is_enabled() ? scale_.item<float>() : 1.0;
}

at::Tensor GradScaler::scale(const at::Tensor& loss) {
  if (!is_enabled()) return loss;
  if (updated_ != Updated::no || !gradient_scale_.defined()) {
    gradient_scale_ = scale_.clone();
    updated_ = Updated::no;
  }
  const auto factor = gradient_scale_.to(loss.device());
  return loss.mul(loss.dim() == 0 ? factor.squeeze(0) : factor);
}

void GradScaler::unscale_(const void* optimizer, const std::vector<at::Tensor>& gradients) {
  if (!is_enabled() || is_unscaled(optimizer)) return;
  if (!gradient_scale_.defined()) {
    throw UsageError(
        "there is nothing to unscale: no loss was scaled yet. Compute gradients with "
        "accelerator.backward(loss) before clipping or stepping");
  }
  const at::NoGradGuard no_grad;
  // In fp64, so that the reciprocal of a large scale is not rounded twice.
  const at::Tensor inverse = gradient_scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  Check mine{.found_inf = false, .had_gradients = false};
  for (auto& [kind, members] : by_kind(gradients)) {
    at::Tensor found = at::zeros({1}, at::TensorOptions(at::kFloat).device(members[0].device()));
    const at::Tensor own = inverse.to(found.device());
    try {
      detail::update_in_memory(members, [&](const auto& here) {
        at::_amp_foreach_non_finite_check_and_unscale_(here, found, own);
      });
    } catch (const FileError& error) {  // Gradients live on disk, and the other ranks would wait.
      if (agreement_) communicator_->abort(describe(error));
      throw;
    }
    mine.found_inf = found.item<float>() != 0 || mine.found_inf;
    mine.had_gradients = true;
  }
  agree_on(optimizer, mine);
}

bool GradScaler::record_check(const void* optimizer, bool found_inf) {
  return agree_on(optimizer, {.found_inf = found_inf, .had_gradients = true});
}

bool GradScaler::agree_on(const void* optimizer, Check mine) {
  if (agreement_ && communicator_->size() > 1) {
    const at::Tensor flags = at::empty({2}, at::kInt);
    int* flag = flags.data_ptr<int>();
    flag[0] = mine.found_inf ? 1 : 0;
    flag[1] = mine.had_gradients ? 1 : 0;
    communicator_->all_reduce(flags, ReduceOp::max).wait();
    mine = {.found_inf = flag[0] != 0, .had_gradients = flag[1] != 0};
  }
  checked_[optimizer] = mine;
  return mine.found_inf;
}

bool GradScaler::is_unscaled(const void* optimizer) const {
  const auto check = checked_.find(optimizer);
  return check != checked_.end() && check->second.had_gradients;
}

bool GradScaler::found_inf(const void* optimizer) const {
  if (!is_enabled()) return false;
  const auto found = checked_.find(optimizer);
  if (found == checked_.end()) {
    throw UsageError(
        "found_inf was asked before the optimizer's gradients were checked: call "
        "unscale_ first");
  }
  return found->second.found_inf;
}

void GradScaler::update(const void* optimizer) {
  if (!is_enabled()) return;
  const bool overflow = found_inf(optimizer);
  checked_.erase(optimizer);
  // One backward may feed several optimizers. The first to report moves the scale. A later one
  // moves it again only if it is the first to report an overflow.
  if (updated_ == Updated::overflowed || (updated_ == Updated::clean && !overflow)) return;
  updated_ = overflow ? Updated::overflowed : Updated::clean;
  if (!kwargs_.dynamic) return;
  if (!overflow) return after_good_step();
  if (hysteresis_left_ > 1)
    --hysteresis_left_;
  else
    shrink();
  growth_tracker_.fill_(-kwargs_.growth_delay);
}

void GradScaler::after_good_step() {
  if (kwargs_.consecutive_hysteresis) hysteresis_left_ = kwargs_.hysteresis;
  // Asks the device only where the answer matters: growth restores the hysteresis.
  const bool is_spent = hysteresis_left_ < kwargs_.hysteresis;
  const bool grows =
      is_spent && growth_tracker_.item<std::int64_t>() + 1 == kwargs_.growth_interval;
  at::_amp_update_scale_(scale_, growth_tracker_, at::zeros({1}, scale_.options()),
                         kwargs_.growth_factor, kwargs_.backoff_factor, kwargs_.growth_interval);
  if (grows) hysteresis_left_ = kwargs_.hysteresis;
}

void GradScaler::shrink() {
  const auto before = scale_.item<double>();
  at::_amp_update_scale_(scale_, growth_tracker_, at::ones({1}, scale_.options()),
                         kwargs_.growth_factor, kwargs_.backoff_factor, kwargs_.growth_interval);
  // Below this minimum the reciprocal is infinite, and unscaling would turn zeros into NaN.
  constexpr double kLeast = std::numeric_limits<float>::min();
  scale_.clamp_min_(std::max(kLeast, kwargs_.min_scale));
  warn_of_small_scale(before, scale_.item<double>(), kwargs_.min_scale);
}

void GradScaler::reset() {
  checked_.clear();
}

GradScalerState GradScaler::state_dict() const {
  return {
      .scale = scale_.item<float>(),
      .growth_factor = kwargs_.growth_factor,
      .backoff_factor = kwargs_.backoff_factor,
      .growth_interval = kwargs_.growth_interval,
      .growth_tracker = growth_tracker_.item<int>(),
      .hysteresis_left = kwargs_.hysteresis > 1 ? std::optional(hysteresis_left_) : std::nullopt};
}

void GradScaler::check_state_dict(const GradScalerState& state) {
  require_scale("scale", state.scale);
  require_factors(state.growth_factor, state.backoff_factor, state.growth_interval);
  constexpr std::int64_t kLongestDelay = std::numeric_limits<int>::max();
  require(state.growth_tracker >= -kLongestDelay && state.growth_tracker < state.growth_interval,
          "growth_tracker", static_cast<double>(state.growth_tracker),
          "a whole number below growth_interval");
  require_count("hysteresis_left", state.hysteresis_left.value_or(1), 1);
}

void GradScaler::load_state_dict(const GradScalerState& state) {
  check_state_dict(state);
  kwargs_.growth_factor = state.growth_factor;
  kwargs_.backoff_factor = state.backoff_factor;
  kwargs_.growth_interval = state.growth_interval;
  scale_.fill_(state.scale);
  growth_tracker_.fill_(state.growth_tracker);
  hysteresis_left_ =
      std::min(state.hysteresis_left.value_or(kwargs_.hysteresis), kwargs_.hysteresis);
  gradient_scale_ = at::Tensor();
  updated_ = Updated::no;
  checked_.clear();
}

}  // namespace accelerate
