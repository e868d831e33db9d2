// Checks that the tensors of a model have memory, and not only shapes.
#pragma once

#include <string>

#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// Throws UsageError, with the cure, when a parameter or buffer of `model` is on the meta device:
/// "the model Net cannot be <done>: fc.weight has no memory …". Local; nanoseconds a tensor.
void require_memory(const ModuleView& model, const std::string& done);

}  // namespace accelerate::detail
