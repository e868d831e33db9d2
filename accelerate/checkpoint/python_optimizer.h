// optimizer.bin of Python Accelerate, and optimizer.pt of Transformers, as a state of ours.
#pragma once

#include <memory>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// The state_dict() of an optimizer of Python under our keys: parameters by name instead of by
/// number, counters as whole numbers, options that ours lack left out where they do not change a
/// step.
/// `own` is the optimizer_state_dict of the optimizer that is to go on from it: its class, and the
/// names of its groups' parameters, which must be as many, in the same order. Tensors are views of
/// `content`. Throws CheckpointError, with the class, group, parameter or key, for a state of
/// another class or other groups, an option or entry that the class here does not know, and a class
/// that is none of SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS, Adafactor (of Transformers), Lion (of
/// bitsandbytes, 32 bits) and ScheduleFreeAdamW (of the package schedulefree).
[[nodiscard]] StateDict optimizer_state_of_python(const TorchValue& saved,
                                                  const std::shared_ptr<const FileContent>& content,
                                                  const StateDict& own);

}  // namespace accelerate
