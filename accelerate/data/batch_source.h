// A dataset, erased: whatever it is, a loader sees a size and batches by index.
#pragma once

#include <c10/core/GradMode.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "accelerate/data/fetch.h"

namespace accelerate {

/// A source of batches over a dataset of known size. Sources are used by one thread at a time; what
/// several of them share must stand concurrent reads.
template <typename Batch>
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// The number of samples.
  [[nodiscard]] virtual std::size_t size() const = 0;

  /// The batch of the samples `indices`, in that order; each is below size(). Throws what the
  /// dataset throws, or SampleError when it knows which sample was at fault.
  virtual Batch fetch(std::span<const std::size_t> indices) = 0;

  /// A source over the same samples for one more thread.
  [[nodiscard]] virtual std::unique_ptr<BatchSource> for_worker() const = 0;
};

namespace detail {

/// The first of `indices` that fails alone; nullopt when none does. Reads them again, one by one.
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

/// source.fetch(indices) without building an autograd graph. Throws SampleError, the original
/// nested.
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
