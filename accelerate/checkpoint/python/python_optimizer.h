// Converts optimizer.bin of Python Accelerate, and optimizer.pt of Transformers, to a state of
// ours.
#pragma once

#include <memory>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// Converts the state_dict() of a Python optimizer to our keys. Parameters go by name instead of by
/// number, and counters become whole numbers. Options that ours lack are left out if they do not
/// change a step. `own` is the optimizer_state_dict of the optimizer that continues from it. It
/// gives the class and the names of the groups' parameters, which must be as many, in the same
/// order. Tensors are views of `content`. Throws CheckpointError for a state of another class or
/// other groups, and for an option or entry that the class here does not know. The error names the
/// class, group, parameter or key. Known classes: SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS,
/// Adafactor (of Transformers), Lion (of bitsandbytes, 32 bits) and ScheduleFreeAdamW (of the
/// package schedulefree).
[[nodiscard]] StateDict optimizer_state_of_python(const TorchValue& saved,
                                                  const std::shared_ptr<const FileContent>& content,
                                                  const StateDict& own);

}  // namespace accelerate
