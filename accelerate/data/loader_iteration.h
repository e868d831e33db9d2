// One pass over a loader.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "accelerate/comm/state/gradient_state.h"
#include "accelerate/data/batch_feed.h"
#include "accelerate/data/dispatch_feed.h"
#include "accelerate/data/loader_options.h"
#include "accelerate/data/loader_plan.h"
#include "accelerate/data/placement.h"
#include "accelerate/tensor/nested.h"

namespace accelerate {

// Gives random generators the same state on all ranks.

/// Gives the generators named by `types` the state that they have on rank 0. RngType::generator
/// stands for `generator`, RngType::cuda for the generator of `device`. A missing one is left out,
/// so it must be missing on all ranks. [collective] Cost: one broadcast of about 5 kB a generator.
/// Source: `synchronize_rng_states` of Hugging Face Accelerate.
void synchronize_rng_states(Communicator& communicator, const std::vector<RngType>& types,
                            const std::optional<at::Generator>& generator = std::nullopt,
                            const std::optional<c10::Device>& device = std::nullopt);

}  // namespace accelerate

namespace accelerate::detail {

/// The parts of a loader. A value type; copies share the dataset and the count of epochs.
template <typename Batch>
struct LoaderCore {
  LoaderPlan plan;
  std::shared_ptr<DatasetReader<Batch>> dataset;
  std::shared_ptr<GradientState> gradient_state = nullptr;
  std::optional<c10::Device> device = std::nullopt;
  bool non_blocking = false;
  std::shared_ptr<DeviceMover> mover = nullptr;
  std::shared_ptr<Communicator> communicator = nullptr;
  std::vector<RngType> rng_types = {};
  DispatchFunctions<Batch> dispatch = {};
  GivenDataset given = {};

  [[nodiscard]] std::unique_ptr<BatchFeed<Batch>> open(PassStart start) const {
    if (communicator) synchronize_rng_states(*communicator, rng_types, generator(), device);
    return plan.dispatches() ? open_dispatched(start) : dataset->open(plan, start, finish());
  }

 private:
  [[nodiscard]] std::optional<at::Generator> generator() const { return dataset->generator(); }

  // A mover is useful only if workers read ahead: the copies then overlap with the loop.
  [[nodiscard]] Finish<Batch> finish() const {
    const bool ahead = plan.options().num_workers > 0;
    return {.pin = plan.options().pin_memory && device && device->is_cuda(),
            .mover = ahead ? mover : nullptr};
  }

  [[nodiscard]] std::unique_ptr<BatchFeed<Batch>> open_dispatched(PassStart start) const {
    if constexpr (Portable<Batch>) {
      const ShardOptions shard = plan.shard();
      typename DispatchFeed<Batch>::Options settings{
          .seekable = dataset->seekable(),
          .skip = start.batch,
          .per_step =
              shard.split_batches ? std::size_t{1} : static_cast<std::size_t>(shard.num_shards),
          .drop_last = plan.options().drop_last,
          .functions = dispatch};
      settings.open = [plan = plan.undivided(), dataset = dataset, start](std::size_t from) {
        return dataset->open(plan, {start.epoch, from, start.offset}, {});
      };
      return std::make_unique<DispatchFeed<Batch>>(communicator, std::move(settings));
    } else {
      throw_not_portable();
    }
  }
};

/// One pass. Its progress is on the GradientState's stack from construction until the pass ends. It
/// ends at the step after the last batch, at an exception, or at destruction.
template <typename Batch>
class LoaderIteration {
 public:
  explicit LoaderIteration(LoaderCore<Batch> core) : core_(std::move(core)) {
    position_ = std::max(core_.plan.skipped(), control().resumes_at());
    feed_ =
        core_.open({.epoch = control().epoch(), .batch = position_, .offset = control().offset()});
    number_ = control().begin_pass();
    if (core_.gradient_state) core_.gradient_state->push(&progress_);
  }
  ~LoaderIteration() { end(); }
  LoaderIteration(const LoaderIteration&) = delete;
  LoaderIteration& operator=(const LoaderIteration&) = delete;

  /// Reads the next batch. Returns false if none is left.
  bool advance() {
    if (ended_) return false;
    batch_.reset();  // Frees its memory for the next batch.
    try {
      if (read()) return true;
    } catch (...) {
      end();
      throw;
    }
    control().finish_epoch();  // Also without a batch: all ranks must count the same epochs.
    end();
    return false;
  }

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] Batch& batch() { return *batch_; }

 private:
  [[nodiscard]] LoaderControl& control() const { return *core_.plan.control(); }

  bool read() {
    std::optional<Fed<Batch>> fed = feed_->next();
    if (!fed) return false;
    batch_.emplace(std::move(fed->batch));
    place(*fed);
    progress_ = fed->progress;
    if constexpr (requires { batch_->is_flattened(); })
      progress_.is_flattened = batch_->is_flattened();
    control().report(number_, ++position_);
    return true;
  }

  void place(const Fed<Batch>& fed) {
    if constexpr (Nested<Batch>) {
      if (fed.arrival) fed.arrival->wait(collect_tensors(*batch_));
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
    feed_.reset();
    control().end_pass(number_);
    if (core_.gradient_state) core_.gradient_state->remove(&progress_);
  }

  LoaderCore<Batch> core_;
  std::int64_t number_ = 0;
  std::size_t position_ = 0;
  LoaderProgress progress_;
  bool ended_ = false;
  std::optional<Batch> batch_;
  std::unique_ptr<BatchFeed<Batch>> feed_;
};

/// A single-pass iterator that owns its pass. Leaving a loop early, by `break` or by an exception,
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

  /// The current batch. The loop may change it or move from it.
  Batch& operator*() const { return pass_->batch(); }
  Batch* operator->() const { return &pass_->batch(); }
  /// Reads the next batch. Throws SampleError when the dataset throws; the pass has then ended.
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
