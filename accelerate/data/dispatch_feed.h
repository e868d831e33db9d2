// Batches that rank 0 reads and deals out: step by step it joins what it has read, cuts it into one
// part a rank and sends each rank its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/data/batch_feed.h"
#include "accelerate/data/batch_rows.h"
#include "accelerate/data/dispatch.h"
#include "accelerate/tensor/parcel.h"

namespace accelerate {
class Communicator;
}

namespace accelerate::detail {

/// What rank 0 tells the others, step by step. A step costs two collectives: a broadcast of 64
/// bytes and a scatter of the parts. All functions are [collective].
class DispatchChannel {
 public:
  explicit DispatchChannel(std::shared_ptr<Communicator> communicator);

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  /// On rank 0: sends part r to rank r and tells all of `progress`. Part 0 is not sent.
  void deal(const std::vector<ParcelWriter>& parts, const LoaderProgress& progress);
  /// On rank 0: there is nothing more.
  void finish();
  /// On rank 0: reading failed; the other ranks throw DataError with `reason`.
  void fail(const std::string& reason);

  struct Received {
    at::Tensor parcel;
    LoaderProgress progress;
  };
  /// On the other ranks: what rank 0 has dealt; nullopt when it has finished. Throws DataError when
  /// it has failed, CommError when what came is no step.
  std::optional<Received> receive();

 private:
  struct Header;
  void send(Header header);

  std::shared_ptr<Communicator> communicator_;
  std::int64_t step_ = 0;
};

[[noreturn]] void throw_not_portable();

/// Inside a `catch` block: says how batches are made to fit together.
[[noreturn]] void throw_unlike_batches();

/// Source of the parts: `DataLoaderDispatcher` of Hugging Face Accelerate.
template <typename Batch>
  requires Portable<Batch>
class DispatchFeed final : public BatchFeed<Batch> {
 public:
  struct Settings {
    /// On rank 0: the batches that one process would read, from the given one on.
    std::function<std::unique_ptr<BatchFeed<Batch>>(std::size_t from)> open = nullptr;
    bool seekable = false;     ///< Whether to open from a later batch is cheaper than to read on.
    std::size_t skip = 0;      ///< Steps left out.
    std::size_t per_step = 1;  ///< Batches of a step.
    bool drop_last = false;    ///< A step takes all of them or none.
    DispatchFunctions<Batch> functions = {};
  };
  DispatchFeed(std::shared_ptr<Communicator> communicator, Settings settings)
      : channel_(std::move(communicator)), settings_(std::move(settings)) {}

  std::optional<Fed<Batch>> next() override {
    if (ended_) return std::nullopt;
    ended_ = true;  // Also when an exception leaves here.
    auto fed = channel_.rank() == 0 ? deal() : receive();
    ended_ = !fed || fed->progress.end_of_dataloader;
    return fed;
  }

 private:
  struct Step {
    std::vector<Batch> batches;
    bool last = false;
  };

  std::optional<Fed<Batch>> receive() {
    auto received = channel_.receive();
    if (!received) return std::nullopt;
    return Fed<Batch>{from_parcel<Batch>(std::move(received->parcel)), received->progress};
  }

  std::optional<Fed<Batch>> deal() {
    LoaderProgress progress;
    std::vector<Batch> parts;
    std::vector<ParcelWriter> parcels;
    try {
      if (auto step = take_step()) parts = cut(*std::move(step), progress);
      for (Batch& part : parts) parcels.push_back(to_parcel(part));
    } catch (const std::exception& error) {
      channel_.fail(describe(error));
      throw;
    } catch (...) {
      channel_.fail("an exception that is no std::exception");
      throw;
    }
    if (parts.empty()) {
      channel_.finish();
      return std::nullopt;
    }
    channel_.deal(parcels, progress);
    return Fed<Batch>{std::move(parts.front()), progress};
  }

  // Within the first step, so that what goes wrong here reaches the other ranks. The first rows of
  // the epoch are needed even where its first steps are left out.
  void begin() {
    base_ = settings_.open(0);
    if (settings_.skip == 0) return;
    if (auto first = read_step()) keep_first(first->batches);
    if (settings_.seekable) {
      base_ = settings_.open(settings_.skip * settings_.per_step);
    } else {
      for (std::size_t step = 1; step < settings_.skip && read_step();) ++step;
    }
  }

  // With drop_last, whether this is the last step is only known when the next one has been read.
  std::optional<Step> take_step() {
    if (!base_) begin();
    if (error_) std::rethrow_exception(error_);
    auto step = ahead_ ? std::exchange(ahead_, std::nullopt) : read_step();
    if (!step || step->last || !settings_.drop_last || settings_.per_step == 1) return step;
    try {
      ahead_ = read_step();
      step->last = !ahead_;
    } catch (...) {
      error_ = std::current_exception();
    }
    return step;
  }

  std::optional<Step> read_step() {
    Step step;
    while (step.batches.size() < settings_.per_step && !step.last) {
      auto fed = base_->next();
      if (!fed) break;
      step.last = fed->progress.end_of_dataloader;
      step.batches.push_back(std::move(fed->batch));
    }
    const std::size_t fewest = settings_.drop_last ? settings_.per_step : 1;
    return step.batches.size() < fewest ? std::nullopt : std::optional(std::move(step));
  }

  std::vector<Batch> cut(Step step, LoaderProgress& progress) {
    if (first_.empty()) keep_first(step.batches);
    const std::int64_t rows = rows_in(step.batches);
    const std::int64_t ranks = channel_.size();
    const std::int64_t each = (rows + ranks - 1) / ranks;
    progress.end_of_dataloader = step.last;
    if (step.last) progress.remainder = rows;
    if (each * ranks > rows) progress.step_samples = rows;
    if (settings_.functions.slice_fn) progress.step_ranks = channel_.size();
    fill_up(step.batches, each * ranks - rows);
    if (settings_.functions.pad_fn) settings_.functions.pad_fn(step.batches);
    const Batch whole = join(std::move(step.batches));
    std::vector<Batch> parts;
    for (int rank = 0; rank < channel_.size(); ++rank) parts.push_back(part(whole, rank, each));
    return parts;
  }

  static Batch join(std::vector<Batch> batches) {
    try {
      return join_batches(std::move(batches));
    } catch (const DataError&) {
      throw_unlike_batches();
    }
  }

  Batch part(const Batch& whole, int rank, std::int64_t each) const {
    const DispatchSlice slice{rank * each, (rank + 1) * each, rank, channel_.size()};
    if (settings_.functions.slice_fn) return settings_.functions.slice_fn(whole, slice);
    return slice_batch(whole, slice.begin, slice.end);
  }

  [[nodiscard]] std::int64_t rows_in(std::vector<Batch>& batches) const {
    std::int64_t rows = 0;
    for (Batch& batch : batches) {
      const ColumnList columns = columns_of(batch);
      rows += settings_.functions.slice_fn ? first_rows_of(columns) : rows_of(columns);
    }
    return rows;
  }

  // As many rows as there are ranks. Batches without rows are of no use to fill_up.
  void keep_first(const std::vector<Batch>& batches) {
    std::int64_t missing = channel_.size();
    for (const Batch& batch : batches) {
      if (missing <= 0) return;
      Batch part = slice_batch(batch, 0, missing);
      const ColumnList columns = columns_of(part);
      if (first_rows_of(columns) == 0) continue;
      own_rows(columns);
      missing -= first_rows_of(columns);
      first_.push_back(std::move(part));
    }
  }

  // Repeats the first rows of the epoch so that all ranks get equally many. Before padding, as
  // these rows may be of another length.
  void fill_up(std::vector<Batch>& batches, std::int64_t missing) {
    for (std::size_t next = 0; missing > 0; next = (next + 1) % first_.size()) {
      batches.push_back(slice_batch(first_[next], 0, missing));
      missing -= first_rows_of(columns_of(batches.back()));
    }
  }

  DispatchChannel channel_;
  std::unique_ptr<BatchFeed<Batch>> base_;
  Settings settings_;
  std::optional<Step> ahead_;
  std::exception_ptr error_;
  std::vector<Batch> first_;
  bool ended_ = false;
};

}  // namespace accelerate::detail
