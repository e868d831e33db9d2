// Where a pass gets its batches from: by index (indexed_feed.h), from a stream (stream_feed.h), or
// from rank 0 (dispatch_feed.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "accelerate/data/loader_plan.h"
#include "accelerate/data/placement.h"
#include "accelerate/state/gradient_state.h"
#include "accelerate/tensor/nested.h"

namespace accelerate::detail {

/// A batch on its way to the loop, and what the loop is to be told with it.
template <typename Batch>
struct Fed {
  Batch batch;
  LoaderProgress progress;
  std::shared_ptr<Arrival> arrival = nullptr;  ///< To wait for before use; null: it is there.
};

/// The batches of one pass, in order. Used by one thread at a time.
template <typename Batch>
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  /// The next batch; nullopt after the last one. After an exception the feed is at its end.
  virtual std::optional<Fed<Batch>> next() = 0;
};

/// Where a pass begins.
struct PassStart {
  std::int64_t epoch = 0;
  std::size_t batch = 0;  ///< Batches of the epoch before it are left out.
};

/// What is done to a batch once it has been read, on the thread that read it.
template <typename Batch>
struct Finish {
  bool pin = false;                              ///< Page-lock its tensors.
  std::shared_ptr<DeviceMover> mover = nullptr;  ///< Start its way to the device.

  void operator()(Fed<Batch>& fed) const {
    if constexpr (Nested<Batch>) {
      if (pin) visit_tensors(fed.batch, [](at::Tensor& tensor) { pin_for_device(tensor); });
      if (!mover) return;
      visit_tensors(fed.batch, [this](at::Tensor& tensor) { tensor = mover->send(tensor); });
      fed.arrival = mover->sent();
    }
  }
};

/// A dataset as a loader reads it: opened anew for every pass.
template <typename Batch>
class DatasetReader {
 public:
  virtual ~DatasetReader() = default;
  /// The batches of `plan`'s rank from `start` on. The feed may outlive the reader's other passes,
  /// and the reader.
  [[nodiscard]] virtual std::unique_ptr<BatchFeed<Batch>> open(const LoaderPlan& plan,
                                                               PassStart start,
                                                               Finish<Batch> finish) = 0;
  /// Whether a later batch can be opened without reading those before it.
  [[nodiscard]] virtual bool seekable() const = 0;
  /// The generator that the dataset draws from, if it has one.
  [[nodiscard]] virtual std::optional<at::Generator> generator() const { return std::nullopt; }
};

}  // namespace accelerate::detail
