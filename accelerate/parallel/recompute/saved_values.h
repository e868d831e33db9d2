// What autograd saves in a recorded unit: kept, or dropped and computed again.
#pragma once

#include <memory>

#include "accelerate/tensor/compat/saved_tensor_hooks.h"

namespace accelerate::detail {

class UnitRecord;

/// Returns hooks for one tensor that is saved while `record` records.
[[nodiscard]] std::unique_ptr<compat::SavedTensorHooks> saved_in(
    std::shared_ptr<UnitRecord> record);

}  // namespace accelerate::detail
