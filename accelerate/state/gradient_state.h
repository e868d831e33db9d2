// Where the process is in its loops: which loader is being iterated, whether this is its last
// batch, and whether gradients are to be synchronised in this step. Knows no loader, only the
// progress each one publishes. Belongs to one thread (the loop's); share it by shared_ptr, not
// between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace accelerate {

/// How gradients accumulate over micro-batches before a step. Upstream's names.
struct GradientAccumulationPlugin {
  int num_steps = 1;  ///< Micro-batches a step.
  /// Whether a schedule that was made for micro-batches is to be advanced by each of them. Upstream
  /// says true and does nothing; here it works, and so is false unless asked for.
  bool adjust_scheduler = false;
  bool sync_with_dataloader = true;  ///< The last batch of a loader ends its window.
  /// Reduce at every micro-batch: more communication, less memory under sharding.
  bool sync_each_batch = false;
};

/// What an iteration over a loader tells the rest of the library. The iteration owns it and keeps
/// it current; GradientState only points at it.
struct LoaderProgress {
  bool end_of_dataloader = false;  ///< Set before the last batch is handed out.
  /// Samples in the last global batch that no other rank repeats (0: it is full); -1 when unknown
  /// or dropped, so that nothing is to be cut off after a gather.
  std::int64_t remainder = -1;
  /// Samples in the present batches of all ranks that are not repeats; -1: all of them.
  std::int64_t step_samples = -1;
  /// How many ranks, from rank 0 on, have a batch in this step, when not all have one or when their
  /// batches may differ in size; 0: all have batches of one size.
  int step_ranks = 0;
};

/// A stack of the loaders that are being iterated, innermost last, and the synchronisation switch.
class GradientState {
 public:
  /// Makes `progress` the active loader until it is removed. It must outlive its stay on the stack.
  void push(const LoaderProgress* progress);

  /// Takes `progress` off the stack, wherever it stands; without effect when it is not there.
  void remove(const LoaderProgress* progress) noexcept;

  /// Whether the active loader has handed out its last batch; false outside any loader.
  [[nodiscard]] bool end_of_dataloader() const;

  /// The active loader's remainder; -1 outside any loader.
  [[nodiscard]] std::int64_t remainder() const;

  /// What the active loader says of its present batch; nullptr outside any loader.
  [[nodiscard]] const LoaderProgress* progress() const {
    return loaders_.empty() ? nullptr : loaders_.back();
  }

  /// Whether a loader is being iterated.
  [[nodiscard]] bool in_dataloader() const { return !loaders_.empty(); }

  /// How many loaders are being iterated inside each other.
  [[nodiscard]] std::size_t depth() const { return loaders_.size(); }

  /// Opens the window of the next micro-batch: decides sync_gradients, which is true when the
  /// window's num_steps-th micro-batch has come, or the active loader's last batch.
  void begin_micro_batch();

  /// Says that a backward begins to add to the gradients.
  void begin_backward() { gradients_touched_ = true; }

  /// Says that a backward ended by an exception: spoils the gradients.
  void abandon_backward() { gradients_spoilt = true; }

  /// Says that the gradients are gone, so that a new window begins.
  void drop_gradients();

  /// Says that an exception ended the micro-batch. One whose backward had not begun is taken back:
  /// optimizers refuse to step until the next one, which takes its place. One whose backward had
  /// begun has spoilt the gradients. One whose gradients were dropped had done its work.
  void abandon_micro_batch();

  /// Forgets a half-filled window and a failed micro-batch.
  void reset();

  /// Goes on in the window of a checkpoint, after `step` micro-batches.
  void resume(std::int64_t step);

  /// A number that changes with every window: what is counted for one of them ends with it.
  [[nodiscard]] std::int64_t window() const { return window_; }

  /// Micro-batches of the present window, as upstream counts them (`Accelerator.step`).
  [[nodiscard]] std::int64_t step() const { return step_; }

  /// Whether an exception ended the last micro-batch before its backward, so that its gradients are
  /// missing.
  bool micro_batch_failed = false;

  /// Whether gradients hold a part of a micro-batch or a backward that failed; until reset().
  bool gradients_spoilt = false;

  /// Whether a micro-batch is open, so that another one would count it twice.
  bool in_micro_batch = false;

  /// Whether gradients are reduced in this step; true until gradient accumulation says otherwise.
  bool sync_gradients = true;

  GradientAccumulationPlugin accumulation;

  /// Runs once, in what first looks at the gradients that a synchronised backward made: a clipping
  /// or a step, which says what it is. For what all ranks compare before their first step.
  std::function<void(std::string_view call)> at_first_step = nullptr;
  void begin_step(std::string_view call) {
    if (at_first_step) std::exchange(at_first_step, nullptr)(call);
  }

 private:
  std::vector<const LoaderProgress*> loaders_;
  std::int64_t step_ = 0;
  std::int64_t step_before_ = 0;
  std::int64_t window_ = 0;
  bool gradients_touched_ = false;  // in the present micro-batch, and since they were dropped
  bool gradients_dropped_ = false;  // in the present micro-batch
};

}  // namespace accelerate
