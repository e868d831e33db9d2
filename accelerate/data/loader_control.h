// State that all copies of a loader share, whatever the type of its batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace accelerate {

/// A loader's position in the data. It holds only numbers, so any format can save it. Together with
/// the dataset and the loader's options it determines all batches to come. The number of workers
/// does not matter.
struct LoaderState {
  std::int64_t epoch = 0;             ///< The epoch that is under way, or the next one.
  std::int64_t batches = 0;           ///< Batches of the epoch that this rank has been given.
  std::int64_t samples = 0;           ///< Samples of the epoch that all ranks together consumed.
  std::uint64_t seed = 0;             ///< Seed of the order.
  std::int64_t total_batch_size = 0;  ///< Samples in a step of all ranks; 0 with a batch sampler.
  std::int64_t dataset_length = -1;   ///< Samples of the dataset; -1: unknown.
  std::int64_t num_processes = 1;     ///< Ranks that shared the batches.
  /// What of the epoch came before the first of `batches`: samples, or, with a batch sampler,
  /// batches of all ranks. It is 0 unless the epoch went on with steps of another size.
  std::int64_t offset = 0;

  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

/// A loader's position in its epochs, and the settings that may change between its passes. Copies
/// of a loader and its skip_first_batches views share one control. An Accelerator keeps the
/// controls of the loaders it prepared. Belongs to the thread of the loop.
class LoaderControl {
 public:
  LoaderControl() = default;
  /// `always_even`: rank 0 reads and deals out equal parts (dispatch_batches), so even_batches has
  /// no effect.
  LoaderControl(bool even_batches, bool always_even)
      : even_batches_(even_batches), always_even_(always_even) {}

  /// The epoch that the next pass goes through, counted from 0.
  [[nodiscard]] std::int64_t epoch() const { return place_.epoch; }
  /// Makes the next pass go through `epoch`, from its first batch.
  void set_epoch(std::int64_t epoch);

  /// Whether the last step repeats samples so that all ranks get equally many. A change takes
  /// effect in the next pass. It must be the same on all ranks.
  [[nodiscard]] bool even_batches() const { return even_batches_; }
  void set_even_batches(bool even_batches) { even_batches_ = even_batches; }
  [[nodiscard]] bool always_even() const { return always_even_; }

  /// The number of batches of its epoch that the next pass leaves out.
  [[nodiscard]] std::size_t resumes_at() const { return resumes_ ? place_.batches : 0; }
  /// What of its epoch comes before the next pass's first batch; see LoaderState::offset.
  [[nodiscard]] std::size_t offset() const { return resumes_ ? place_.offset : 0; }

  /// A position in the data: `batches` of `epoch` have been handed out or left out.
  struct Place {
    std::int64_t epoch = 0;
    std::size_t batches = 0;
    std::size_t offset = 0;  ///< See LoaderState::offset.
  };
  /// Returns the place of the newest pass under way. If no pass is under way, returns where the
  /// last one ended or the next one begins.
  [[nodiscard]] Place place() const { return passes_.empty() ? place_ : passes_.back().place; }
  /// Makes the next pass continue from `place`.
  void resume(const Place& place);

  // The functions below are called by a pass.
  /// Begins a pass, after its dataset was opened. Returns the number of the pass.
  std::int64_t begin_pass();
  /// Records that `batches` of the epoch have been handed out or left out.
  void report(std::int64_t pass, std::size_t batches);
  /// Records that a pass has reached the end of its epoch.
  void finish_epoch() { set_epoch(epoch() + 1); }
  /// Records that a pass is over, whether or not it reached the end.
  void end_pass(std::int64_t pass) noexcept;

 private:
  struct Pass {
    std::int64_t number = 0;
    Place place;
  };
  Place place_;
  bool resumes_ = false;  // The next pass starts at place_, not at the beginning of an epoch.
  bool even_batches_ = true;
  bool always_even_ = false;
  std::int64_t passes_begun_ = 0;
  std::vector<Pass> passes_;  // Under way, the newest last.
};

/// Sets even_batches of some loaders for its lifetime, then restores the value that each had.
/// Loaders that are always even stay as they are; turning even_batches off for them logs one
/// warning. Local; every rank needs one.
class [[nodiscard]] EvenBatchesScope {
 public:
  EvenBatchesScope(std::vector<std::shared_ptr<LoaderControl>> loaders, bool even_batches);
  ~EvenBatchesScope();
  EvenBatchesScope(const EvenBatchesScope&) = delete;
  EvenBatchesScope& operator=(const EvenBatchesScope&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<LoaderControl>, bool>> before_;
};

}  // namespace accelerate
