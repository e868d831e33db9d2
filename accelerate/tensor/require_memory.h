// Models whose tensors are to be used, and not only to have shapes.
#pragma once

#include <string>

#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// Throws UsageError, "the model Net cannot be <done>: fc.weight has no memory …", when a parameter
/// or buffer of `model` is on the meta device, with the cure. Local; nanoseconds a tensor.
void require_memory(const ModuleView& model, const std::string& done);

}  // namespace accelerate::detail
