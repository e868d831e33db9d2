// The type-erased dataset: a loader sees only its size and batches by index.
#pragma once

#include <c10/core/GradMode.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "accelerate/data/fetch.h"

namespace accelerate {

/// A source of batches over a dataset of known size. Each source is used by one thread at a time.
/// Data that several sources share must allow concurrent reads.
template <typename Batch>
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// The number of samples.
  [[nodiscard]] virtual std::size_t size() const = 0;

  /// Returns the batch of the samples `indices`, in that order; each index is below size(). Throws
  /// what the dataset throws, or SampleError when the source knows which sample was at fault.
  virtual Batch fetch(std::span<const std::size_t> indices) = 0;

  /// Returns another source over the same samples, for another thread.
  [[nodiscard]] virtual std::unique_ptr<BatchSource> for_worker() const = 0;
};

namespace detail {

/// Returns the first of `indices` that fails alone, or nullopt if none does. Reads the samples
/// again, one by one.
template <typename Batch>
std::optional<std::size_t> find_culprit(BatchSource<Batch>& source,
                                        std::span<const std::size_t> indices) {
  for (std::size_t k = 0; k < indices.size(); ++k) {
    try {
      source.fetch(indices.subspan(k, 1));
    } catch (...) {
      return indices[k];
    }
  }
  return std::nullopt;
}

/// Calls source.fetch(indices) without building an autograd graph. Throws SampleError with the
/// original exception nested.
template <typename Batch>
Batch fetch_batch(BatchSource<Batch>& source, std::span<const std::size_t> indices,
                  BatchPlace place) {
  const c10::NoGradGuard no_grad;
  try {
    return source.fetch(indices);
  } catch (const SampleError&) {
    throw;
  } catch (...) {
    throw_batch_error(indices, find_culprit(source, indices), place);
  }
}

}  // namespace detail
}  // namespace accelerate
