#include "accelerate/optim/precision/autocast.h"

#include <ATen/autocast_mode.h>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"

namespace accelerate {

std::optional<at::ScalarType> autocast_dtype(MixedPrecision precision) {
  switch (precision) {
    case MixedPrecision::no:
      return std::nullopt;
    case MixedPrecision::fp16:
      return at::kHalf;
    case MixedPrecision::bf16:
      return at::kBFloat16;
    case MixedPrecision::fp8:
      break;
  }
  throw ConfigError(
      "mixed_precision (ACCELERATE_MIXED_PRECISION) is 'fp8', which needs a GPU library that "
      "native programs do not have; "
      "allowed is one of no, fp16, bf16",
      error_name::kMixedPrecision);
}

AutocastScope::AutocastScope(c10::DeviceType device, std::optional<at::ScalarType> dtype,
                             const AutocastKwargs& kwargs)
    : active_(dtype.has_value()), device_(device) {
  if (!active_) return;
  enabled_before_ = at::autocast::is_autocast_enabled(device_);
  cache_before_ = at::autocast::is_autocast_cache_enabled();
  dtype_before_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, kwargs.enabled);
  at::autocast::set_autocast_dtype(device_, *dtype);
  at::autocast::set_autocast_cache_enabled(kwargs.cache_enabled);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
  at::autocast::set_autocast_cache_enabled(cache_before_);
}

}  // namespace accelerate
