// An iterable dataset, erased: whatever it is, a loader reads samples from its beginning to its end
// and makes batches of those it has read.
#pragma once

#include <ATen/core/Generator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace accelerate {

/// One pass over an iterable dataset: samples that have been read wait in a window, oldest first.
/// Used by one thread at a time.
template <typename Batch>
class SampleStream {
 public:
  virtual ~SampleStream() = default;

  /// Reads a sample into the window; false when there is none left. Throws what the dataset throws.
  virtual bool read() = 0;

  /// Sets copies of the `count` oldest samples aside, for repetition at the end.
  virtual void keep(std::size_t count) = 0;

  /// The batch of the samples [begin, end) of the window, which are moved from. Those from
  /// `present` on are not in the window but repetitions of what was kept, in a circle.
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

  /// Its beginning in `epoch`. Throws UsageError when the dataset can only be read once at a time
  /// and is being read.
  [[nodiscard]] virtual std::unique_ptr<SampleStream<Batch>> open(std::int64_t epoch) = 0;

  /// The generator that the dataset draws from, if it has one.
  [[nodiscard]] virtual std::optional<at::Generator> generator() const = 0;
};

}  // namespace accelerate
