// Decides what autograd keeps for backward. LibTorch has hooks for that in Python alone; its C++
// engine has a place for them.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

namespace accelerate::compat {

using SavedTensorHooks = torch::autograd::SavedVariableHooks;

/// Makes hooks for the tensors that autograd saves.
class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  /// Called for every tensor that autograd is about to save, on the thread of the scope. Null: the
  /// tensor is saved as usual.
  [[nodiscard]] virtual std::unique_ptr<SavedTensorHooks> make_hooks() = 0;
};

/// While alive, `policy` decides for what the calling thread's operators save. Without a policy
/// (null) tensors are saved as usual. Scopes nest. LibTorch does not compare versions of tensors that
/// have hooks. Cost: nanoseconds; the first scope replaces LibTorch's engine by one that computes in
/// the same way.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy* policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorPolicy* outer_;
};

/// Calls `callback` when the backward ends that the calling thread is in; at once without one.
void at_end_of_backward(std::function<void()> callback);

}  // namespace accelerate::compat
