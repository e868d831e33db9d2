// Saves while the training goes on: its memory, its thread, its group of ranks.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "accelerate/checkpoint/staging.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/comm/second_group.h"

namespace accelerate {

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
  /// the error is logged, not thrown: one rank alone may have it, and all must go on together.
  void wait_before(const Communicator& ranks);
  /// As wait_before(), and frees the memory of the copy.
  void release(const Communicator& ranks);

 private:
  Staging staging_;
  detail::SecondGroup group_;
  std::future<void> running_;
};

}  // namespace accelerate
