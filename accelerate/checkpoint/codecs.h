// Converts the states of schedules, loss scalers and loaders to StateDicts, under the keys of
// docs/formats/checkpoint.md, and back.
#pragma once

#include <cstdint>
#include <optional>

#include "accelerate/data/loader_control.h"
#include "accelerate/optim/precision/grad_scaler.h"
#include "accelerate/optim/schedules/scheduler_state.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

[[nodiscard]] StateDict to_state_dict(const SchedulerState& state);
[[nodiscard]] StateDict to_state_dict(const GradScalerState& state);
[[nodiscard]] StateDict to_state_dict(const LoaderState& state);

/// Convert back. Throw CheckpointError if `state` is not a valid state of that kind.
[[nodiscard]] SchedulerState scheduler_state_of(const StateDict& state);
[[nodiscard]] GradScalerState grad_scaler_state_of(const StateDict& state);
[[nodiscard]] LoaderState loader_state_of(const StateDict& state);

/// The number in `value`, to which one more may be added. `key` names it in the CheckpointError.
[[nodiscard]] std::int64_t count_of(const StateDict& value, const char* key);
/// As count_of(); nothing where `value` is absent (nullptr) or null.
[[nodiscard]] std::optional<std::int64_t> count_if_any(const StateDict* value, const char* key);

}  // namespace accelerate
