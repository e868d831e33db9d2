// What surrounds the reading of a batch: errors that name the sample, and the setup of worker
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

/// Thrown when the dataset (or the collate function) threw while a batch was read. The original
/// exception is nested, and what() includes its message.
class SampleError : public DataError {
 public:
  SampleError(const std::string& message, Indices indices, ErrorName name = {})
      : DataError(message, name), indices_(std::move(indices)) {}
  /// The sample at fault, or all samples of the batch if none fails alone. Empty if samples of an
  /// iterable dataset could not be collated.
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

/// Inside a `catch` block: throws a SampleError that names one sample. The current exception is
/// nested.
[[noreturn]] void throw_sample_error(std::size_t index);

/// Inside a `catch` block: throws a SampleError that also names the batch. `culprit` is the sample
/// that fails alone; without one, the message names `indices`. The current exception is nested.
[[noreturn]] void throw_batch_error(std::span<const std::size_t> indices,
                                    std::optional<std::size_t> culprit, BatchPlace place);

/// Inside a `catch` block: throws a SampleError for a batch of an iterable dataset whose samples
/// were read but could not be collated. The current exception is nested.
[[noreturn]] void throw_collate_error(BatchPlace place);

/// Returns a function that runs `work` as worker `number` of a loader. The thread gets a name and
/// the identity that the calling thread has now, so that it logs as the rank it works for.
/// Profilers and other RecordFunction callbacks do not see its operators. It computes on one core;
/// otherwise workers and the training step would compete for cores.
[[nodiscard]] std::function<void(std::size_t number, const std::function<void()>& work)>
worker_environment();

}  // namespace detail
}  // namespace accelerate
