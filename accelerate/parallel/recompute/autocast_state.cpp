#include "accelerate/parallel/recompute/autocast_state.h"

#include <ATen/autocast_mode.h>

namespace accelerate::detail {

AutocastState AutocastState::present() {
  AutocastState state;
  for (std::size_t i = 0; i < kDevices.size(); ++i) {
    state.devices[i] = {.enabled = at::autocast::is_autocast_enabled(kDevices[i]),
                        .dtype = at::autocast::get_autocast_dtype(kDevices[i])};
  }
  return state;
}

void AutocastState::set() const {
  for (std::size_t i = 0; i < kDevices.size(); ++i) {
    at::autocast::set_autocast_enabled(kDevices[i], devices[i].enabled);
    at::autocast::set_autocast_dtype(kDevices[i], devices[i].dtype);
  }
}

AutocastStateScope::AutocastStateScope()
    : caches_before_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastStateScope::~AutocastStateScope() {
  before_.set();
  at::autocast::set_autocast_cache_enabled(caches_before_);
}

}  // namespace accelerate::detail
