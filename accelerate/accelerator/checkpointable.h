// What save_state() and load_state() can be told: objects of the user's, hooks, options.
#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "accelerate/tensor/state_dict.h"

namespace accelerate {

struct SaveStateOptions {
  /// Returns once the state is copied, and writes it while the training goes on. Alike on all
  /// ranks. Needs as much memory as the state of this rank, kept for the next save. One save is
  /// under way at a time: the next save_state() or load_state(), wait_for_save() and end_training()
  /// wait for it, and throw on all ranks what it failed of. docs/checkpoints.md.
  bool asynchronous = false;
  /// Writes the state in shards: of what all ranks have alike each rank writes its share, in files
  /// that PyTorch's distributed checkpoints read and `accelerate merge-weights` merges. Alike on
  /// all ranks. load_state() knows both layouts, on any number of ranks. Cost: a checksum of the
  /// state on each rank, to find what is alike; the rest is rank 0's. Not with save_on_each_node.
  /// docs/checkpoints.md.
  bool sharded = false;
  /// Writes each model as one file of whole tensors, which from_pretrained() opens, whatever
  /// state_dict_type says of the rest. Alike on all ranks. Not with `sharded`.
  bool whole_models = false;
  /// Writes models and what hooks write, and nothing else: such a folder gives weights, see
  /// LoadStateOptions::only_models, and no training goes on from it. Alike on all ranks.
  bool only_models = false;
};

struct LoadStateOptions {
  /// Without a folder: a checkpoint that is damaged or incomplete is left out, with a warning that
  /// names it, for the one before it. Else it is an error.
  bool skip_damaged = false;
  /// Loads models, and leaves optimizers, schedules, loaders, random generators and registered
  /// objects as they are.
  bool only_models = false;
};

/// Called with a checkpoint's folder.
using StateHook = std::function<void(const std::filesystem::path& folder)>;

/// Takes a hook away again. Does nothing in its destructor, nor the second time.
class RemovableHandle {
 public:
  explicit RemovableHandle(std::weak_ptr<StateHook> hook) : hook_(std::move(hook)) {}
  void remove() {
    if (const auto hook = hook_.lock()) *hook = nullptr;
  }

 private:
  std::weak_ptr<StateHook> hook_;
};

/// An object whose state a checkpoint can hold.
template <typename T>
concept Checkpointable = requires(T& object, const StateDict& state) {
  { std::as_const(object).state_dict() } -> std::convertible_to<StateDict>;
  object.load_state_dict(state);
};

namespace detail {

struct CheckpointedObject {
  const void* address;
  std::string type;
  std::function<StateDict()> state_dict;
  std::function<void(const StateDict&)> load_state_dict;
};

template <typename T>
inline constexpr bool kIsCheckpointable = Checkpointable<T>;
template <typename T>
inline constexpr bool kIsCheckpointable<std::shared_ptr<T>> = Checkpointable<T>;

template <typename T>
CheckpointedObject checkpointable(const std::shared_ptr<T>& object) {
  return {object.get(), typeid(T).name(), [object] { return StateDict(object->state_dict()); },
          [object](const StateDict& state) { object->load_state_dict(state); }};
}

template <Checkpointable T>
CheckpointedObject checkpointable(T& object) {
  return {&object, typeid(T).name(),
          [&object] { return StateDict(std::as_const(object).state_dict()); },
          [&object](const StateDict& state) { object.load_state_dict(state); }};
}

}  // namespace detail
}  // namespace accelerate
