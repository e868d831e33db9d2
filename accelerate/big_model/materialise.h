// Memory for models that were constructed without any.
#pragma once

#include <c10/core/Device.h>

#include "accelerate/tensor/module_view.h"

namespace accelerate {

struct MaterialiseOptions {
  c10::Device device = c10::kCPU;  ///< Where the memory is. Values are computed on the CPU.
};

/// Gives every parameter and buffer of `module` that has no memory the values that its constructors
/// would have given it: bit for bit those of plain construction from the same seed, also when
/// sub-modules are materialised one by one, in any order, on several ranks. What has memory is left
/// alone, so that a checkpoint may be loaded before it. Tensors stay the same objects: optimizers
/// and members keep them, and tied parameters stay tied.
/// Local. Throws UsageError that names the first tensor that cannot, and why, and then nothing
/// changed: one made on the meta device by hand, changed or converted (`to(dtype)`) after the
/// scope. Cost: the constructor's operations; peak memory is the model and one tensor more. For a
/// part of a model, once, also the random numbers of the parts before it.
void materialise(torch::nn::Module& module, const MaterialiseOptions& options = {});
void materialise(const ModuleView& model, const MaterialiseOptions& options = {});

}  // namespace accelerate
