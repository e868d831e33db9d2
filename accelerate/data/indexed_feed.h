// Batches read by index, either in the loop itself or ahead of it by worker threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "accelerate/data/batch_feed.h"
#include "accelerate/data/batch_source.h"
#include "accelerate/data/ordered_prefetch.h"

namespace accelerate::detail {

/// The dataset of a loader, with the workers' sources that wait for the next epoch. A worker's copy
/// of a dataset lives as long as the loader, and keeps its state.
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
    // In reverse, so that worker 0 gets the same source again.
    std::move(sources.rbegin(), sources.rend(), std::back_inserter(idle_));
  }

 private:
  std::shared_ptr<Source> source_;
  std::vector<std::unique_ptr<Source>> idle_;
};

template <typename Batch>
class IndexedFeed final : public BatchFeed<Batch> {
 public:
  IndexedFeed(const LoaderPlan& plan, std::shared_ptr<SourcePool<Batch>> sources, PassStart start,
              Finish<Batch> finish)
      : ranks_(plan.shard().num_shards),
        drop_last_(plan.options().drop_last),
        epoch_(start.epoch),
        batches_(plan.batches(start.epoch, start.offset)),
        next_(std::min(start.batch, batches_.size())),
        sources_(std::move(sources)),
        finish_(std::move(finish)) {
    start_workers(plan.options());
  }
  ~IndexedFeed() override {
    prefetch_.reset();
    sources_->give_back(std::move(worker_sources_));
  }
  IndexedFeed(const IndexedFeed&) = delete;
  IndexedFeed& operator=(const IndexedFeed&) = delete;

  std::optional<Fed<Batch>> next() override {
    if (next_ == batches_.size()) return std::nullopt;
    std::optional<Fed<Batch>> fed;
    if (prefetch_) {
      fed = prefetch_->next();
    } else {
      fed = fetch(sources_->main(), indices_, next_);
    }
    fed->progress = progress(next_++);
    return fed;
  }

 private:
  void start_workers(const DataLoaderOptions& options) {
    const std::size_t first = next_;
    const std::size_t count = batches_.size() - first;
    const std::size_t workers = std::min(static_cast<std::size_t>(options.num_workers), count);
    if (workers == 0) return;
    worker_sources_ = sources_->take(workers);
    worker_indices_.resize(workers);
    const auto capacity =
        std::min(count, workers * static_cast<std::size_t>(options.prefetch_factor));
    prefetch_.emplace(
        PrefetchOptions{.count = count, .workers = workers, .capacity = capacity},
        [this, first](std::size_t worker, std::size_t item) {
          return fetch(*worker_sources_[worker], worker_indices_[worker], first + item);
        },
        worker_environment());
  }

  Fed<Batch> fetch(BatchSource<Batch>& source, Indices& indices, std::size_t position) const {
    batches_.batch(position, indices);
    Fed<Batch> fed{fetch_batch(source, indices, BatchPlace{position, epoch_}), {}};
    finish_(fed);
    return fed;
  }

  // The last batch announces the end. The number of batches is known beforehand, so no batch needs
  // to be read ahead for that.
  [[nodiscard]] LoaderProgress progress(std::size_t position) const {
    const BatchSamplerShard::Step step = batches_.step(position);
    const bool last = position + 1 == batches_.size();
    LoaderProgress progress{.end_of_dataloader = last, .remainder = batches_.remainder()};
    if (step.repeats) progress.step_samples = static_cast<std::int64_t>(step.samples);
    if (ranks_ > 1 && (step.ragged || step.ranks < ranks_)) progress.step_ranks = step.ranks;
    if (drop_last_) progress.remainder = -1;
    return progress;
  }

  int ranks_;
  bool drop_last_;
  std::int64_t epoch_;
  BatchSamplerShard batches_;
  std::size_t next_;
  Indices indices_;
  std::shared_ptr<SourcePool<Batch>> sources_;
  Finish<Batch> finish_;
  std::vector<std::unique_ptr<BatchSource<Batch>>> worker_sources_;
  std::vector<Indices> worker_indices_;
  std::optional<OrderedPrefetch<Fed<Batch>>> prefetch_;
};

/// Reads a map-style dataset.
template <typename Batch>
class IndexedReader final : public DatasetReader<Batch> {
 public:
  explicit IndexedReader(std::shared_ptr<BatchSource<Batch>> source)
      : sources_(std::make_shared<SourcePool<Batch>>(std::move(source))) {}

  std::unique_ptr<BatchFeed<Batch>> open(const LoaderPlan& plan, PassStart start,
                                         Finish<Batch> finish) override {
    return std::make_unique<IndexedFeed<Batch>>(plan, sources_, start, std::move(finish));
  }
  [[nodiscard]] bool seekable() const override { return true; }

 private:
  std::shared_ptr<SourcePool<Batch>> sources_;
};

}  // namespace accelerate::detail
