// What all copies of a loader have in common, whatever the type of its batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace accelerate {

/// Where a loader is in the data: numbers only, to be saved by any means. With the dataset and the
/// loader's options it determines everything that is still to come, whatever the number of workers.
struct LoaderState {
  std::int64_t epoch = 0;             ///< The pass that is under way, or the next one.
  std::int64_t batches = 0;           ///< Batches of it that this rank has been given.
  std::int64_t samples = 0;           ///< Samples of it that all ranks together have consumed.
  std::uint64_t seed = 0;             ///< Of the order.
  std::int64_t total_batch_size = 0;  ///< Samples a step of all ranks; 0: a batch sampler decides.
  std::int64_t dataset_length = -1;   ///< Samples of the dataset; -1: it does not know.
  std::int64_t num_processes = 1;     ///< Ranks that shared the batches.

  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

/// Where a loader is in its epochs, and what may be changed between its passes. Copies of a loader
/// and its skip_first_batches views share one; an Accelerator keeps those of the loaders it
/// prepared. Belongs to the thread of the loop.
class LoaderControl {
 public:
  LoaderControl() = default;
  /// `always_even`: rank 0 reads and deals out equal parts (dispatch_batches), so that even_batches
  /// decides nothing.
  LoaderControl(bool even_batches, bool always_even)
      : even_batches_(even_batches), always_even_(always_even) {}

  /// The epoch that the next pass goes through, counted from 0.
  [[nodiscard]] std::int64_t epoch() const { return place_.epoch; }
  /// The next pass goes through `epoch`, from its first batch.
  void set_epoch(std::int64_t epoch);

  /// Whether the last step repeats samples so that all ranks get as many as one another. A change
  /// is seen by the next pass; it must be the same on all ranks.
  [[nodiscard]] bool even_batches() const { return even_batches_; }
  void set_even_batches(bool even_batches) { even_batches_ = even_batches; }
  [[nodiscard]] bool always_even() const { return always_even_; }

  /// Batches of the epoch that the next pass leaves out.
  [[nodiscard]] std::size_t resumes_at() const { return resumes_ ? place_.batches : 0; }

  /// A place in the data: batches of an epoch that have been handed out or left out.
  struct Place {
    std::int64_t epoch = 0;
    std::size_t batches = 0;
  };
  /// Of the newest pass that is under way; else where the last one ended, or the next one begins.
  [[nodiscard]] Place place() const { return passes_.empty() ? place_ : passes_.back().place; }
  /// The next pass goes through `epoch` without its first `batches`.
  void resume(std::int64_t epoch, std::size_t batches);

  // A pass reports where it is.
  /// Begins a pass, once its dataset is open; returns its number.
  std::int64_t begin_pass();
  /// `batches` of the epoch have been handed out or left out.
  void report(std::int64_t pass, std::size_t batches);
  /// A pass has reached the end of its epoch.
  void finish_epoch() { set_epoch(epoch() + 1); }
  /// A pass is over, whether or not it reached the end.
  void end_pass(std::int64_t pass) noexcept;

 private:
  struct Pass {
    std::int64_t number = 0;
    Place place;
  };
  Place place_;
  bool resumes_ = false;  // The next pass starts at place_ and not at the beginning.
  bool even_batches_ = true;
  bool always_even_ = false;
  std::int64_t passes_begun_ = 0;
  std::vector<Pass> passes_;  // Under way, the newest last.
};

/// Sets even_batches of some loaders for as long as it lives, then puts back what each had. Loaders
/// that are always even stay as they are, with one warning in the log. Local; every rank needs one.
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
