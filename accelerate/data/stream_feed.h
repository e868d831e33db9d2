// Batches of an iterable dataset. Every rank reads the whole stream, one step of all ranks at a
// time, and makes a batch of its part of the step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "accelerate/data/batch_feed.h"
#include "accelerate/data/fetch.h"
#include "accelerate/data/ordered_prefetch.h"
#include "accelerate/data/sample_stream.h"

namespace accelerate::detail {

/// Source of the sequences: `IterableDatasetShard` of Hugging Face Accelerate. Unlike here, it
/// repeats samples even if even_batches is off.
template <typename Batch>
class StreamFeed final : public BatchFeed<Batch> {
 public:
  StreamFeed(const LoaderPlan& plan, std::unique_ptr<SampleStream<Batch>> stream, PassStart start,
             Finish<Batch> finish)
      : shard_(plan.shard()),
        shape_(plan.step_shape()),
        drop_last_(plan.options().drop_last),
        first_(static_cast<std::size_t>(shard_.shard_index) * shape_.width),
        needed_(drop_last_            ? shape_.stride
                : shard_.even_batches ? 1
                                      : first_ + 1),
        epoch_(start.epoch),
        to_leave_out_(start.offset),
        to_skip_(start.batch),
        stream_(std::move(stream)),
        finish_(std::move(finish)) {}

  std::optional<Fed<Batch>> next() override {
    const c10::NoGradGuard no_grad;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    leave_out();
    for (; to_skip_ > 0; --to_skip_) {
      if (!fill_step()) return std::nullopt;
      leave_step();
    }
    if (!fill_step()) return std::nullopt;
    Fed<Batch> fed = take();
    leave_step();
    return fed;
  }

 private:
  // Reads until the window holds `count` samples, or the stream ends.
  void fill(std::size_t count) {
    while (!ended_ && waiting_ < count) {
      try {
        ended_ = !stream_->read();
      } catch (const SampleError&) {
        ended_ = true;
        throw;
      } catch (...) {
        ended_ = true;
        throw_sample_error(read_);
      }
      if (ended_) return;
      ++waiting_;
      ++read_;
    }
  }

  // Reads what of the epoch comes before this pass, a step at a time.
  void leave_out() {
    while (to_leave_out_ > 0) {
      fill(std::min(to_leave_out_, shape_.stride));
      const std::size_t count = std::min(to_leave_out_, waiting_);
      if (count == 0) return;
      stream_->drop(count);
      waiting_ -= count;
      to_leave_out_ -= count;
    }
  }

  // Reads the next step. Returns whether it has something for this rank.
  bool fill_step() {
    fill(shape_.stride);
    if (waiting_ < needed_) return false;
    step_ = std::min(waiting_, shape_.stride);
    if (batch_ == 0 && repeats_at_end()) stream_->keep(step_);
    return true;
  }
  void leave_step() {
    stream_->drop(step_);
    waiting_ -= step_;
    ++batch_;
  }
  [[nodiscard]] bool repeats_at_end() const { return shard_.even_batches && !drop_last_; }

  Fed<Batch> take() {
    const bool last = !another_follows();
    const std::size_t end = first_ + shape_.width;
    Fed<Batch> fed{collate(shard_.even_batches ? end : std::min(end, step_)), progress(last)};
    finish_(fed);
    return fed;
  }

  Batch collate(std::size_t end) {
    try {
      return stream_->collate(first_, end, step_);
    } catch (...) {
      throw_collate_error(BatchPlace{batch_, epoch_});
    }
  }

  // The beginning of the next step must be read to know whether this batch is the last one. An
  // error there belongs to the next batch.
  bool another_follows() {
    try {
      fill(step_ + needed_);
    } catch (...) {
      error_ = std::current_exception();
      return true;
    }
    return waiting_ >= step_ + needed_;
  }

  [[nodiscard]] LoaderProgress progress(bool last) const {
    LoaderProgress progress{.end_of_dataloader = last};
    const bool full = step_ == shape_.stride;
    if (!drop_last_) progress.remainder = full ? 0 : static_cast<std::int64_t>(step_);
    if (!full && shard_.num_shards > 1) {
      if (shard_.even_batches) progress.step_samples = static_cast<std::int64_t>(step_);
      if (!shard_.even_batches) progress.step_ranks = shape_.ranks_of(step_);
    }
    return progress;
  }

  ShardOptions shard_;
  StepShape shape_;
  bool drop_last_;
  std::size_t first_;   // This rank's first sample of a step.
  std::size_t needed_;  // A step with fewer samples has nothing for this rank.
  std::int64_t epoch_;
  std::size_t to_leave_out_;  // Samples.
  std::size_t to_skip_;       // Steps behind these samples.
  std::unique_ptr<SampleStream<Batch>> stream_;
  Finish<Batch> finish_;
  std::size_t waiting_ = 0;  // Samples in the window: this step's, and those read ahead of the next
                             // step.
  std::size_t step_ = 0;     // Samples of this step.
  std::size_t batch_ = 0;
  std::size_t read_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;
};

/// Another feed, read ahead by one thread.
template <typename Batch>
class ReadAheadFeed final : public BatchFeed<Batch> {
 public:
  ReadAheadFeed(std::unique_ptr<BatchFeed<Batch>> feed, std::size_t ahead)
      : feed_(std::move(feed)),
        prefetch_(
            {.count = std::numeric_limits<std::size_t>::max(), .workers = 1, .capacity = ahead},
            [this](std::size_t, std::size_t) { return read(); }, worker_environment()) {}

  std::optional<Fed<Batch>> next() override { return *prefetch_.next(); }

 private:
  std::optional<Fed<Batch>> read() {
    if (ended_) return std::nullopt;
    ended_ = true;  // Also when an exception leaves here.
    auto fed = feed_->next();
    ended_ = !fed;
    return fed;
  }

  std::unique_ptr<BatchFeed<Batch>> feed_;
  bool ended_ = false;
  OrderedPrefetch<std::optional<Fed<Batch>>> prefetch_;  // Ends first: its thread reads the feed.
};

/// Reads an iterable dataset. Only one thread reads ahead, whatever num_workers says, because a
/// stream has only one position.
template <typename Batch>
class StreamReader final : public DatasetReader<Batch> {
 public:
  explicit StreamReader(std::shared_ptr<StreamSource<Batch>> source) : source_(std::move(source)) {}

  std::unique_ptr<BatchFeed<Batch>> open(const LoaderPlan& plan, PassStart start,
                                         Finish<Batch> finish) override {
    auto feed = std::make_unique<StreamFeed<Batch>>(plan, source_->open(start.epoch), start,
                                                    std::move(finish));
    const DataLoaderOptions& options = plan.options();
    if (options.num_workers == 0) return feed;
    const auto ahead = static_cast<std::size_t>(options.num_workers) *
                       static_cast<std::size_t>(options.prefetch_factor);
    return std::make_unique<ReadAheadFeed<Batch>>(std::move(feed), ahead);
  }

  [[nodiscard]] bool seekable() const override { return false; }
  [[nodiscard]] std::optional<at::Generator> generator() const override {
    return source_->generator();
  }

 private:
  std::shared_ptr<StreamSource<Batch>> source_;
};

}  // namespace accelerate::detail
