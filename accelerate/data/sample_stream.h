// The type-erased iterable dataset: a loader reads samples from its beginning to its end and makes
// batches of what it has read.
#pragma once

#include <ATen/core/Generator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace accelerate {

/// One pass over an iterable dataset. Samples that have been read wait in a window, oldest first.
/// Used by one thread at a time.
template <typename Batch>
class SampleStream {
 public:
  virtual ~SampleStream() = default;

  /// Reads a sample into the window. Returns false if none is left. Throws what the dataset throws.
  virtual bool read() = 0;

  /// Sets copies of the `count` oldest samples aside, to be repeated at the end.
  virtual void keep(std::size_t count) = 0;

  /// Makes a batch of the samples [begin, end) of the window, and moves from them. Samples from
  /// `present` on are not in the window: they repeat the kept samples, in a circle.
  virtual Batch collate(std::size_t begin, std::size_t end, std::size_t present) = 0;

  /// Drops the `count` oldest samples.
  virtual void drop(std::size_t count) = 0;
};

/// An iterable dataset.
template <typename Batch>
class StreamSource {
 public:
  virtual ~StreamSource() = default;

  /// The number of samples, if the dataset knows.
  [[nodiscard]] virtual std::optional<std::size_t> size() const = 0;

  /// Opens the stream at its beginning, in `epoch`. Throws UsageError when only one pass at a time
  /// can read the dataset and a pass is reading it.
  [[nodiscard]] virtual std::unique_ptr<SampleStream<Batch>> open(std::int64_t epoch) = 0;

  /// Returns the generator that the dataset draws from, if it has one.
  [[nodiscard]] virtual std::optional<at::Generator> generator() const = 0;
};

}  // namespace accelerate
