// scheduler.bin of Python Accelerate as a state of ours.
#pragma once

#include <memory>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// The state_dict() of a PyTorch schedule, without what only Python can use (functions, None, the
/// phases that OneCycleLR computes anew), a Counter as the sorted list of its elements, states
/// within as lists. Throws CheckpointError for what is no dict, and for a value, with its key, that
/// no schedule has.
[[nodiscard]] StateDict scheduler_state_of_python(
    const TorchValue& saved, const std::shared_ptr<const FileContent>& content);

}  // namespace accelerate
