// The sources from which a pass gets its batches: by index (indexed_feed.h), from a stream
// (stream_feed.h), or from rank 0 (dispatch_feed.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "accelerate/comm/state/gradient_state.h"
#include "accelerate/data/loader_plan.h"
#include "accelerate/data/placement.h"
#include "accelerate/tensor/nested.h"

namespace accelerate::detail {

/// A batch on its way to the loop, with the progress that the loop is told.
template <typename Batch>
struct Fed {
  Batch batch;
  LoaderProgress progress;
  std::shared_ptr<Arrival> arrival = nullptr;  ///< To wait for before use; null: already there.
};

/// The batches of one pass, in order. Used by one thread at a time.
template <typename Batch>
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  /// Returns the next batch, or nullopt after the last one. After an exception the feed is at its
  /// end.
  virtual std::optional<Fed<Batch>> next() = 0;
};

/// Where a pass begins.
struct PassStart {
  std::int64_t epoch = 0;
  std::size_t batch = 0;  ///< Leaves out the batches of the pass before this one.
  /// What of the epoch comes before the pass: samples, or batches of a batch sampler.
  std::size_t offset = 0;
};

/// What the thread that has read a batch does to it next.
template <typename Batch>
struct Finish {
  bool pin = false;                              ///< Page-lock its tensors.
  std::shared_ptr<DeviceMover> mover = nullptr;  ///< Starts the copy to the device; null: none.

  void operator()(Fed<Batch>& fed) const {
    if constexpr (Nested<Batch>) {
      if (pin) visit_tensors(fed.batch, [](at::Tensor& tensor) { pin_for_device(tensor); });
      if (!mover) return;
      visit_tensors(fed.batch, [this](at::Tensor& tensor) { tensor = mover->send(tensor); });
      fed.arrival = mover->sent();
    }
  }
};

/// A dataset as a loader reads it: opened again for every pass.
template <typename Batch>
class DatasetReader {
 public:
  virtual ~DatasetReader() = default;
  /// Opens the batches of `plan`'s rank, from `start` on. The feed stays valid when other passes
  /// end, and when the reader is destroyed.
  [[nodiscard]] virtual std::unique_ptr<BatchFeed<Batch>> open(const LoaderPlan& plan,
                                                               PassStart start,
                                                               Finish<Batch> finish) = 0;
  /// Whether a later batch can be opened without reading the batches before it.
  [[nodiscard]] virtual bool seekable() const = 0;
  /// Returns the generator that the dataset draws from, if it has one.
  [[nodiscard]] virtual std::optional<at::Generator> generator() const { return std::nullopt; }
};

}  // namespace accelerate::detail
