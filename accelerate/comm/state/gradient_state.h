// Where the process is in its loops: which loader is being iterated, whether this is its last
// batch, and whether this step synchronises gradients. Knows no loaders, only the progress that
// each loader publishes. Belongs to the thread of the loop: share it by shared_ptr, but not between
// threads.
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
  int num_steps = 1;  ///< Micro-batches per step.
  /// Whether micro-batches advance a schedule, for schedules that were planned in micro-batches.
  /// Upstream's default is true but has no effect. Here it has one, so the default is false.
  bool adjust_scheduler = false;
  bool sync_with_dataloader = true;  ///< The last batch of a loader ends its window.
  /// Reduce at every micro-batch: more communication, less memory under sharding.
  bool sync_each_batch = false;
};

/// What an iteration over a loader tells the rest of the library. The iteration owns it and keeps
/// it current; GradientState only points at it.
struct LoaderProgress {
  bool end_of_dataloader = false;  ///< Set before the last batch is handed out.
  /// Samples in the last global batch, without repeats; 0: the batch is full. -1: unknown or
  /// dropped, so that a gather cuts nothing off.
  std::int64_t remainder = -1;
  /// Samples in the present batches of all ranks, without repeats; -1: no sample is a repeat.
  std::int64_t step_samples = -1;
  /// Set when some ranks have no batch in this step or batch sizes may differ: the number of ranks,
  /// counted from rank 0, that have a batch. 0: all ranks have batches of one size.
  int step_ranks = 0;
  /// Whether the present batch has no rows that could be cut off: DataCollatorWithFlattening.
  bool is_flattened = false;
};

/// A stack of the loaders that are being iterated, innermost last, and the synchronisation switch.
class GradientState {
 public:
  /// Makes `progress` the active loader until it is removed. It must stay alive until then.
  void push(const LoaderProgress* progress);

  /// Removes `progress` from the stack, wherever it stands. Does nothing when it is not there.
  void remove(const LoaderProgress* progress) noexcept;

  /// Whether the active loader has handed out its last batch; false outside any loader.
  [[nodiscard]] bool end_of_dataloader() const;

  /// Returns the active loader's remainder; -1 outside any loader.
  [[nodiscard]] std::int64_t remainder() const;

  /// Returns the progress of the active loader; nullptr outside any loader.
  [[nodiscard]] const LoaderProgress* progress() const {
    return loaders_.empty() ? nullptr : loaders_.back();
  }

  /// Whether a loader is being iterated.
  [[nodiscard]] bool in_dataloader() const { return !loaders_.empty(); }

  /// How many loaders are being iterated inside each other.
  [[nodiscard]] std::size_t depth() const { return loaders_.size(); }

  /// Begins a micro-batch, in a new window when the last window was complete, and sets
  /// sync_gradients. It becomes true for the num_steps-th micro-batch of the window. With
  /// sync_with_dataloader it also becomes true for the active loader's last batch.
  void begin_micro_batch();

  /// Notes that a backward begins to add to the gradients.
  void begin_backward() { gradients_touched_ = true; }

  /// Notes that a backward ended with an exception: the gradients are spoilt.
  void abandon_backward() { gradients_spoilt = true; }

  /// Notes that the gradients are gone, so that a new window begins.
  void drop_gradients();

  /// Notes that an exception ended the micro-batch. There are three cases:
  /// * Its backward had not begun: the micro-batch is taken back. Optimizers refuse to step until
  ///   the next micro-batch, which takes its place.
  /// * Its backward had begun: the gradients are spoilt.
  /// * Its gradients were dropped, and no backward followed: the micro-batch had done its work.
  void abandon_micro_batch();

  /// Forgets a half-filled window and a failed micro-batch.
  void reset();

  /// Continues the window of a checkpoint after `step` micro-batches.
  void resume(std::int64_t step);

  /// Returns a number that changes with every window, so that counts made for one window end with
  /// it.
  [[nodiscard]] std::int64_t window() const { return window_; }

  /// The number of micro-batches in the present window, as upstream counts them
  /// (`Accelerator.step`).
  [[nodiscard]] std::int64_t step() const { return step_; }

  /// Whether an exception ended the last micro-batch before its backward, so that its gradients are
  /// missing.
  bool micro_batch_failed = false;

  /// Whether gradients hold part of a micro-batch or of a backward that failed; until reset().
  bool gradients_spoilt = false;

  /// Whether a micro-batch is open: opening another one would count it twice.
  bool in_micro_batch = false;

  /// Whether this step reduces gradients; true until gradient accumulation says otherwise.
  bool sync_gradients = true;

  GradientAccumulationPlugin accumulation;

  /// Runs once, at the first call that uses the gradients of a synchronised backward: a clipping or
  /// a step. `call` describes that call. Serves to compare ranks before their first step.
  std::function<void(std::string_view call)> at_first_step = nullptr;
  void begin_step(std::string_view call) {
    if (at_first_step) std::exchange(at_first_step, nullptr)(call);
  }

 private:
  std::vector<const LoaderProgress*> loaders_;
  std::int64_t step_ = 0;
  std::int64_t step_before_ = 0;
  std::int64_t window_ = 0;
  bool gradients_touched_ = false;  // in the present micro-batch, since the last drop
  bool gradients_dropped_ = false;  // in the present micro-batch
};

}  // namespace accelerate
