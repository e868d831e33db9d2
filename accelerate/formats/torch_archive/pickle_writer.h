// The pickle of a state dict, as torch.save writes it. Part of formats/torch_archive.
#pragma once

#include <string>
#include <vector>

#include "accelerate/formats/safetensors/tensor_spec.h"

namespace accelerate::detail {

/// Returns a pickle (protocol 2) of an OrderedDict: names to row-major tensors on the CPU. The
/// tensor at place i has the storage "i" of its own. Throws UsageError for a name that appears
/// twice or is too long, and a shape whose size is not valid. Throws CheckpointError for an element
/// type that PyTorch lacks.
[[nodiscard]] std::string pickled_state_dict(const std::vector<TensorSpec>& tensors);

}  // namespace accelerate::detail
