// One pass over a loader.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "accelerate/data/batch_source.h"
#include "accelerate/data/loader_plan.h"
#include "accelerate/data/ordered_prefetch.h"
#include "accelerate/data/placement.h"
#include "accelerate/state/gradient_state.h"
#include "accelerate/tensor/nested.h"

namespace accelerate::detail {

/// The dataset of a loader, and the sources of worker threads that are waiting for the next epoch:
/// a worker's copy of a dataset lives as long as the loader, with whatever state it has.
template <typename Batch>
class SourcePool {
 public:
  using Source = BatchSource<Batch>;

  explicit SourcePool(std::shared_ptr<Source> source) : source_(std::move(source)) {}

  [[nodiscard]] Source& main() const { return *source_; }

  [[nodiscard]] std::vector<std::unique_ptr<Source>> take(std::size_t count) {
    std::vector<std::unique_ptr<Source>> taken;
    while (taken.size() < count) {
      if (idle_.empty()) idle_.push_back(source_->for_worker());
      taken.push_back(std::move(idle_.back()));
      idle_.pop_back();
    }
    return taken;
  }
  void give_back(std::vector<std::unique_ptr<Source>> sources) {
    // In reverse, so that worker 0 gets its own again.
    std::move(sources.rbegin(), sources.rend(), std::back_inserter(idle_));
  }

 private:
  std::shared_ptr<Source> source_;
  std::vector<std::unique_ptr<Source>> idle_;
};

/// What a loader is made of. A value; copies share the dataset and the count of epochs.
template <typename Batch>
struct LoaderCore {
  LoaderPlan plan;
  std::shared_ptr<SourcePool<Batch>> sources;
  std::shared_ptr<GradientState> gradient_state = nullptr;
  std::optional<c10::Device> device = std::nullopt;
  bool non_blocking = false;

  [[nodiscard]] bool pins() const {
    return plan.options().pin_memory && device && device->is_cuda();
  }
};

/// The pass itself. Its progress is on the GradientState's stack from construction until its end,
/// which is the step after the last batch, an exception, or destruction, whichever comes first.
template <typename Batch>
class LoaderIteration {
 public:
  explicit LoaderIteration(LoaderCore<Batch> core)
      : core_(std::move(core)),
        epoch_(core_.plan.epoch()),
        batches_(core_.plan.batches(epoch_)),
        next_(std::min(core_.plan.skipped(), batches_.size())) {
    progress_.remainder = core_.plan.remainder();
    start_workers();
    if (core_.gradient_state) core_.gradient_state->push(&progress_);
  }
  ~LoaderIteration() { end(); }
  LoaderIteration(const LoaderIteration&) = delete;
  LoaderIteration& operator=(const LoaderIteration&) = delete;

  /// Reads the next batch; false when there is none. The end is announced with the last batch: how
  /// many there are is known beforehand, so no batch needs to be read ahead to find out.
  bool advance() {
    if (ended_) return false;
    if (next_ == batches_.size()) {
      if (batches_.size() > 0) core_.plan.set_epoch(core_.plan.epoch() + 1);
      end();
      return false;
    }
    try {
      read();
    } catch (...) {
      end();
      throw;
    }
    progress_.end_of_dataloader = ++next_ == batches_.size();
    return true;
  }

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] Batch& batch() { return *batch_; }

 private:
  void start_workers() {
    const auto& options = core_.plan.options();
    const std::size_t first = next_;
    const std::size_t count = batches_.size() - first;
    const std::size_t workers = std::min(static_cast<std::size_t>(options.num_workers), count);
    if (workers == 0) return;
    worker_sources_ = core_.sources->take(workers);
    const auto capacity = workers * static_cast<std::size_t>(options.prefetch_factor);
    prefetch_.emplace(
        PrefetchOptions{.count = count, .workers = workers, .capacity = capacity},
        [this, first](std::size_t worker, std::size_t item) {
          return fetch(*worker_sources_[worker], first + item);
        },
        WorkerEnvironment());
  }

  Batch fetch(BatchSource<Batch>& source, std::size_t position) const {
    Batch batch = fetch_batch(source, batches_.batch(position), BatchPlace{position, epoch_});
    if constexpr (Nested<Batch>) {
      if (core_.pins()) visit_tensors(batch, [](at::Tensor& tensor) { pin_for_device(tensor); });
    }
    return batch;
  }

  void read() {
    batch_.reset();  // Its memory is free for the next one.
    batch_ = prefetch_ ? prefetch_->next() : fetch(core_.sources->main(), next_);
    if constexpr (Nested<Batch>) {
      if (!core_.device) return;
      visit_tensors(*batch_, [this](at::Tensor& tensor) {
        move_to_device(tensor, *core_.device, core_.non_blocking);
      });
    }
  }

  void end() noexcept {
    if (ended_) return;
    ended_ = true;
    batch_.reset();
    prefetch_.reset();
    core_.sources->give_back(std::move(worker_sources_));
    if (core_.gradient_state) core_.gradient_state->remove(&progress_);
  }

  LoaderCore<Batch> core_;
  std::int64_t epoch_;
  BatchSamplerShard batches_;
  std::size_t next_;
  LoaderProgress progress_;
  bool ended_ = false;
  std::optional<Batch> batch_;
  std::vector<std::unique_ptr<BatchSource<Batch>>> worker_sources_;
  std::optional<OrderedPrefetch<Batch>> prefetch_;
};

/// A single-pass iterator that owns its pass: leaving a loop early, by `break` or by an exception,
/// ends the pass and its threads.
template <typename Batch>
class LoaderIterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  explicit LoaderIterator(LoaderCore<Batch> core)
      : pass_(std::make_unique<LoaderIteration<Batch>>(std::move(core))) {
    pass_->advance();
  }

  /// The batch; it is the loop's to change or move from.
  Batch& operator*() const { return pass_->batch(); }
  Batch* operator->() const { return &pass_->batch(); }
  /// Reads the next batch. Throws SampleError when the dataset throws; the pass is then at its end.
  LoaderIterator& operator++() {
    pass_->advance();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return pass_->ended(); }

 private:
  std::unique_ptr<LoaderIteration<Batch>> pass_;
};

}  // namespace accelerate::detail
