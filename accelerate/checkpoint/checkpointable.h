// What save_state() and load_state() take from the user: objects, hooks, options.
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
  /// Returns once the state is copied, and writes it while the training continues. Must be alike on
  /// all ranks. Memory: as much as this rank's state, kept for the next save. One save is under way
  /// at a time. The next save_state() or load_state(), wait_for_save() and end_training() wait for
  /// it, and throw its error on all ranks. See docs/checkpoints.md.
  bool asynchronous = false;
  /// Writes the state in shards: each rank writes a share of what all ranks have alike. PyTorch's
  /// distributed checkpoints read the files, and `accelerate merge-weights` merges them. Must be
  /// alike on all ranks. load_state() reads both layouts, on any number of ranks. Cost: a checksum
  /// of the state on each rank, to find what is alike; what differs is taken from rank 0. Cannot be
  /// combined with save_on_each_node. See docs/checkpoints.md.
  bool sharded = false;
  /// Writes each model as one file of whole tensors, which from_pretrained() opens. state_dict_type
  /// still decides on the rest. Must be alike on all ranks. Cannot be combined with `sharded`.
  bool whole_models = false;
  /// Writes only models and what hooks write. No training can resume from such a folder; it is read
  /// with LoadStateOptions::only_models. Must be alike on all ranks.
  bool only_models = false;
  /// Replaces a checkpoint of Python's Trainer too. If false, such a folder is an error.
  bool over_python = false;
};

struct LoadStateOptions {
  /// If load_state() chooses the folder: skips a damaged or incomplete checkpoint, with a warning
  /// that names it, and takes the one before it. If false, such a checkpoint is an error.
  bool skip_damaged = false;
  /// Loads models, and leaves optimizers, schedules, loaders, random generators and registered
  /// objects as they are.
  bool only_models = false;
  /// If false, leaves loaders as they are: their epochs begin again.
  bool loaders = true;
};

/// Called with a checkpoint's folder.
using StateHook = std::function<void(const std::filesystem::path& folder)>;

/// Removes a hook by remove(); a second call does nothing. The destructor does not remove it.
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
