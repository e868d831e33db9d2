// Saving while the training goes on: its memory, its thread, its group of ranks.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "accelerate/checkpoint/staging.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/comm/second_group.h"

namespace accelerate {

/// At most one save at a time. It speaks to the other ranks through a group of its own, so that its
/// collectives cannot meet the training's. While it runs, SIGTERM waits for it (DeferredSigterm).
/// Not thread-safe.
class BackgroundSave {
 public:
  /// Completes a checkpoint; a collective over the group that it is given.
  using Complete = std::function<void(Communicator& ranks)>;

  BackgroundSave() = default;
  /// Waits, and logs what nobody asked for any more: an error.
  ~BackgroundSave();
  BackgroundSave(BackgroundSave&&) = delete;
  BackgroundSave& operator=(BackgroundSave&&) = delete;

  /// What start() may write: see Staging::copy. None may be under way.
  [[nodiscard]] std::vector<PlannedFile> copy(std::vector<PlannedFile> planned) {
    return staging_.copy(std::move(planned));
  }
  /// Runs `complete` on a thread of its own. None may be under way. [collective over `ranks`, the
  /// same group each time, which may have been renewed in between]
  void start(Communicator& ranks, Complete complete);
  /// Returns once it is through; at once when there is none. Throws what it threw, once; a rank
  /// that was lost meanwhile is a CheckpointError. Local.
  void wait();
  /// As wait(), before the next thing on `ranks`. The error of a save from before `ranks` was
  /// renewed is logged: it may be one rank's alone, and all are to go on together.
  void wait_before(const Communicator& ranks);
  /// As wait_before(), and gives the memory of the copy back.
  void release(const Communicator& ranks);

 private:
  Staging staging_;
  detail::SecondGroup group_;
  std::future<void> running_;
};

}  // namespace accelerate
