// Converts the states of Python's schedules and optimizers to states of ours.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

// Converts scheduler.bin of Python Accelerate to a state of ours.

/// Converts the state_dict() of a PyTorch schedule. Leaves out what only Python can use: functions,
/// None, the phases that OneCycleLR recomputes. A Counter becomes the sorted list of its elements,
/// and nested states become lists. Throws CheckpointError if `saved` is not a dict, or for a value
/// that no schedule has, naming its key.
[[nodiscard]] StateDict scheduler_state_of_python(
    const TorchValue& saved, const std::shared_ptr<const FileContent>& content);

// Converts optimizer.bin of Python Accelerate, and optimizer.pt of Transformers, to a state of
// ours.

/// The state_dict() of a Python optimizer, in one file or in several.
struct SavedOptimizer {
  std::vector<TorchValue> groups;              ///< "param_groups": dicts of options and "params".
  std::shared_ptr<const FileContent> content;  ///< Keeps alive what the groups point into.
  /// Returns the state of a parameter, nullopt if it has none. `key` is a number, or with FSDP a
  /// name; `name` is the parameter's name here.
  std::function<std::optional<StateDict>(const TorchValue& key, const std::string& name)> state_of;
};

/// Returns the optimizer in a file. Tensors are views of `content`. `saved` must outlive the result.
/// Throws CheckpointError if it has no "state" or no "param_groups".
[[nodiscard]] SavedOptimizer saved_optimizer_of(const TorchValue& saved,
                                                const std::shared_ptr<const FileContent>& content);

/// Converts the state_dict() of a Python optimizer to our keys. Parameters go by name instead of by
/// number, and counters become whole numbers. Options that ours lack are left out if they do not
/// change a step. `own` is the optimizer_state_dict of the optimizer that continues from it. It
/// gives the class and the names of the groups' parameters. There must be as many; if they are
/// numbers, in the same order, and if they are names, with the same names. Throws CheckpointError for a state of another class or
/// other groups, and for an option or entry that the class here does not know. The error names the
/// class, group, parameter or key. Known classes: SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS, Muon,
/// Adafactor (of Transformers), Lion (of bitsandbytes, 32 bits) and ScheduleFreeAdamW (of the
/// package schedulefree).
[[nodiscard]] StateDict optimizer_state_of_python(const SavedOptimizer& saved,
                                                  const StateDict& own);

}  // namespace accelerate
