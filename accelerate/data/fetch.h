// What surrounds the reading of a batch: errors that name the sample, and the state of worker
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/data/loader_options.h"

namespace accelerate {

/// The dataset (or the collate function) threw while a batch was read. The original exception is
/// nested, and what() tells both.
class SampleError : public DataError {
 public:
  SampleError(const std::string& message, Indices indices)
      : DataError(message), indices_(std::move(indices)) {}
  /// The sample at fault; all samples of the batch when none of them fails alone.
  [[nodiscard]] const Indices& indices() const { return indices_; }

 private:
  Indices indices_;
};

namespace detail {

/// Which batch is being read, for messages.
struct BatchPlace {
  std::size_t batch = 0;  // Of this rank, in this epoch.
  std::int64_t epoch = 0;
};

/// Inside a `catch` block: throws SampleError that names one sample, with the current exception
/// nested.
[[noreturn]] void throw_sample_error(std::size_t index);

/// Inside a `catch` block: the same, with the batch in which it happened. `culprit` is the sample
/// that fails alone; without one the message names all `indices`.
[[noreturn]] void throw_batch_error(std::span<const std::size_t> indices,
                                    std::optional<std::size_t> culprit, BatchPlace place);

/// Inside a `catch` block: throws SampleError for a batch of an iterable dataset, whose samples
/// could be read but not collated, with the current exception nested.
[[noreturn]] void throw_collate_error(BatchPlace place);

/// Does `work` as worker `number` of a loader: the thread is named, takes the given identity (so
/// that it logs as the rank it works for), runs its operators unobserved by profiler and engine
/// callbacks, and computes on one core, because workers and the training step would otherwise fight
/// for them.
class WorkerEnvironment {
 public:
  /// Remembers the identity of the calling thread.
  WorkerEnvironment();
  void operator()(std::size_t number, const std::function<void()>& work) const;

 private:
  std::function<void(std::size_t, const std::function<void()>&)> enter_;
};

}  // namespace detail
}  // namespace accelerate
