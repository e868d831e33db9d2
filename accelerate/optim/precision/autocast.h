// Autocast: while a scope is alive, operations that gain from it compute in a 16-bit type.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "accelerate/launch/config/enums.h"

namespace accelerate {

/// Upstream's names and defaults.
struct AutocastKwargs {
  bool enabled = true;        ///< false: the scope switches autocast off, for a part in full fp32.
  bool cache_enabled = true;  ///< Weights are converted once per scope, not once per use.
};

/// Returns the type in which `precision` computes; nullopt for `no`. Throws ConfigError for fp8.
[[nodiscard]] std::optional<at::ScalarType> autocast_dtype(MixedPrecision precision);

/// Sets the calling thread's autocast state for `device` and restores it when destroyed. Scopes
/// nest: the converted weights are dropped when the outermost scope ends, and when a prepared
/// optimizer steps. Does nothing without a dtype.
class [[nodiscard]] AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, std::optional<at::ScalarType> dtype,
                const AutocastKwargs& kwargs = {});
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool active_;
  c10::DeviceType device_;
  bool enabled_before_ = false;
  bool cache_before_ = true;
  at::ScalarType dtype_before_ = at::kFloat;
};

}  // namespace accelerate
