// Converts scheduler.bin of Python Accelerate to a state of ours.
#pragma once

#include <memory>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// Converts the state_dict() of a PyTorch schedule. Leaves out what only Python can use: functions,
/// None, the phases that OneCycleLR recomputes. A Counter becomes the sorted list of its elements,
/// and nested states become lists. Throws CheckpointError if `saved` is not a dict, or for a value
/// that no schedule has, naming its key.
[[nodiscard]] StateDict scheduler_state_of_python(
    const TorchValue& saved, const std::shared_ptr<const FileContent>& content);

}  // namespace accelerate
