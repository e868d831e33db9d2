// Gives memory to models that were constructed without any.
#pragma once

#include <c10/core/Device.h>

#include "accelerate/tensor/module_view.h"

namespace accelerate {

struct MaterialiseOptions {
  c10::Device device = c10::kCPU;  ///< Where the memory is. Values are computed on the CPU.
};

/// Gives memory to every parameter and buffer of `module` that has none, with the values that its
/// constructors would have given it. They equal plain construction from the same seed bit for bit,
/// even if sub-modules are materialised one by one, in any order, on several ranks. Tensors that
/// have memory are left alone, so a checkpoint may be loaded first. Tensors stay the same objects:
/// optimizers and members keep them, and tied parameters stay tied. Local. Throws UsageError if a
/// tensor was made on the meta device by hand, or was changed or converted (`to(dtype)`) after the
/// scope. The error names the first such tensor and the reason; nothing has changed then. Cost: the
/// constructor's operations. Peak memory: the model and one more tensor. The first part of a model
/// to be materialised also draws the random numbers of the parts before it, once.
void materialise(torch::nn::Module& module, const MaterialiseOptions& options = {});
void materialise(const ModuleView& model, const MaterialiseOptions& options = {});

}  // namespace accelerate
