// Finds buffers that Transformers does not save. Python marks them when it registers them
// (persistent=False). A trace loses the mark, so they are recognised by their names and values.
#pragma once

#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// Whether `buffer` is such a buffer of a TorchScript module. Its shape is {1, n} and its dtype
/// int64. It is named position_ids and holds 0, 1, …, n - 1, or it is named token_type_ids and
/// holds zeros. Transformers makes both from the configuration, and calls them unexpected in a
/// file. A buffer with other values is the user's. Cost: one pass over a buffer of that name.
[[nodiscard]] bool is_unsaved_buffer(const ModuleView& model, const NamedTensor& buffer);

/// Returns `model` without such buffers.
[[nodiscard]] ModuleView without_unsaved_buffers(ModuleView model);

}  // namespace accelerate::detail
