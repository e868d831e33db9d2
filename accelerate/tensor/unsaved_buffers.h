// Buffers that Transformers does not save. Python marks them when it registers them
// (persistent=False), and a trace forgets the mark, so that they are told by what they are.
#pragma once

#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// Whether `tensor` is such a buffer of a TorchScript module: shape {1, n}, int64, called
/// position_ids and 0, 1, …, n - 1, or called token_type_ids and zero. Transformers makes both
/// from the configuration and calls them unexpected in a file. A buffer with other values is the
/// user's. Cost: one pass over a buffer of that name.
[[nodiscard]] bool is_unsaved_buffer(const ModuleView& model, const NamedTensor& buffer);

/// Without those buffers.
[[nodiscard]] ModuleView without_unsaved_buffers(ModuleView model);

}  // namespace accelerate::detail
