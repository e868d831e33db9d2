// What all copies of a loader have in common, whatever the type of its batches.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace accelerate {

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
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }

  /// Whether the last step repeats samples so that all ranks get as many as one another. A change
  /// is seen by the next pass; it must be the same on all ranks.
  [[nodiscard]] bool even_batches() const { return even_batches_; }
  void set_even_batches(bool even_batches) { even_batches_ = even_batches; }
  [[nodiscard]] bool always_even() const { return always_even_; }

 private:
  std::int64_t epoch_ = 0;
  bool even_batches_ = true;
  bool always_even_ = false;
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
