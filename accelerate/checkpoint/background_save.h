// Saves while the training continues: its memory, its thread, its group of ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/comm/second_group.h"

namespace accelerate {

// Memory into which the state of a training is copied, so that it can be written while the training
// continues.

/// Keeps its memory from copy to copy: fresh pages would cost more than the copy itself.
class Staging {
 public:
  /// Returns the same files with copies of their tensors: on the CPU, row-major, independent of the
  /// originals. They are valid until the next copy. Throws CheckpointError if there is no memory.
  /// Cost: one pass, by as many threads as LibTorch may use (at::set_num_threads). Memory: the
  /// bytes of all tensors, kept until release().
  [[nodiscard]] std::vector<PlannedFile> copy(std::vector<PlannedFile> planned);
  /// Frees the memory once no copy uses it.
  void release() { memory_.reset(); }
  /// The bytes that are held now.
  [[nodiscard]] std::size_t size_bytes() const;

 private:
  class Memory;

  std::shared_ptr<Memory> memory_;
};

/// Runs at most one save at a time. It communicates in a separate group of the same ranks, so that
/// its collectives cannot mix with the training's. While it runs, SIGTERM waits for it
/// (DeferredSigterm). Not thread-safe.
class BackgroundSave {
 public:
  /// Completes a checkpoint. [collective] over the group that it is given.
  using Complete = std::function<void(Communicator& ranks)>;

  BackgroundSave() = default;
  /// Waits, and logs an error that no call has thrown.
  ~BackgroundSave();
  BackgroundSave(BackgroundSave&&) = delete;
  BackgroundSave& operator=(BackgroundSave&&) = delete;

  /// Copies the files for start() to write; see Staging::copy. No save may be under way.
  [[nodiscard]] std::vector<PlannedFile> copy(std::vector<PlannedFile> planned) {
    return staging_.copy(std::move(planned));
  }
  /// Runs `complete` on another thread. No save may be under way. [collective over `ranks`, the
  /// same group each time, which may have been renewed in between]
  void start(Communicator& ranks, Complete complete);
  /// Returns once the save is complete, or immediately if none is under way. Throws the error of
  /// the save, once. A rank that was lost meanwhile is a CheckpointError. Local.
  void wait();
  /// As wait(), before the next operation on `ranks`. If `ranks` was renewed since the save began,
  /// the error is logged, not thrown: one rank alone may have it, and all must continue together.
  void wait_before(const Communicator& ranks);
  /// As wait_before(), and frees the memory of the copy.
  void release(const Communicator& ranks);

 private:
  Staging staging_;
  detail::SecondGroup group_;
  std::future<void> running_;
};

}  // namespace accelerate
