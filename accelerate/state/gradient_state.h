// Where the process is in its loops: which loader is being iterated, whether this is its last
// batch, and whether gradients are to be synchronised in this step. Knows no loader, only the
// progress each one publishes. Belongs to one thread (the loop's); share it by shared_ptr, not
// between threads.
#pragma once

#include <cstddef>
#include <cstdint>
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

  /// Takes the last begin_micro_batch() back, because that micro-batch failed: optimizers refuse to
  /// step until the next one begins or the gradients are dropped.
  void abandon_micro_batch();

  /// Forgets a half-filled window and a failed micro-batch.
  void reset();

  /// Micro-batches of the present window, as upstream counts them (`Accelerator.step`).
  [[nodiscard]] std::int64_t step() const { return step_; }

  /// Whether the last micro-batch ended by an exception, so that its gradients are incomplete.
  bool micro_batch_failed = false;

  /// Whether gradients are reduced in this step; true until gradient accumulation says otherwise.
  bool sync_gradients = true;

  GradientAccumulationPlugin accumulation;

 private:
  std::vector<const LoaderProgress*> loaders_;
  std::int64_t step_ = 0;
  std::int64_t step_before_ = 0;
};

}  // namespace accelerate
