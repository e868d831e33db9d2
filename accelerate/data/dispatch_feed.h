// Batches that rank 0 reads and deals out. In each step it joins the batches it has read, cuts them
// into one part a rank, and sends each rank its part.
#pragma once

#include <ATen/core/Tensor.h>
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
#include "accelerate/tensor/nested.h"
#include "accelerate/tensor/parcel.h"

namespace accelerate {

// Functions that a user may give to loaders that dispatch: how to cut a step into the ranks' parts,
// and how to make ragged batches fit together.

/// The part of a step that one rank gets.
struct DispatchSlice {
  std::int64_t begin = 0;  ///< First row.
  std::int64_t end = 0;    ///< One past the last row.
  int process_index = 0;   ///< The rank.
  int num_processes = 1;
};

/// Optional hooks of a loader that dispatches. Both run on rank 0 only.
template <typename Batch>
struct DispatchFunctions {
  /// Makes the batches of one step alike in everything but their number of rows.
  std::function<void(std::vector<Batch>&)> pad_fn = nullptr;
  /// Cuts a rank's part out of a step. Default: the rows [begin, end) of each tensor and vector.
  std::function<Batch(const Batch&, const DispatchSlice&)> slice_fn = nullptr;
};

namespace detail {
/// Pads the k-th tensors of all batches along `dim` to the longest of them. Tensors without `dim`
/// stay. Throws ConfigError when `dim` is below 1.
void pad_to_longest(const std::vector<std::vector<at::Tensor*>>& batches, std::int64_t dim,
                    double value);
}  // namespace detail

/// A pad_fn: pads tensors along `dim` to the longest among the batches of a step. Tensors without
/// that dimension stay as they are. E.g. {.dim = 1, .pad_index = 0} for token ids {batch, length}.
struct PadToLongest {
  std::int64_t dim = 1;
  double pad_index = 0;

  template <Nested Batch>
  void operator()(std::vector<Batch>& batches) const {
    std::vector<std::vector<at::Tensor*>> tensors(batches.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      visit_tensors(batches[i], [&](at::Tensor& tensor) { tensors[i].push_back(&tensor); });
    }
    detail::pad_to_longest(tensors, dim, pad_index);
  }
};

class Communicator;
}  // namespace accelerate

namespace accelerate::detail {

/// Carries what rank 0 tells the other ranks, step by step. A step costs two collectives: a
/// broadcast of 64 bytes and a scatter of the parts. All functions are [collective], except rank()
/// and size().
class DispatchChannel {
 public:
  explicit DispatchChannel(std::shared_ptr<Communicator> communicator);

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  /// On rank 0: sends part r to rank r, and `progress` to all ranks. Part 0 is not sent.
  void deal(const std::vector<ParcelWriter>& parts, const LoaderProgress& progress);
  /// On rank 0: says that there are no more steps.
  void finish();
  /// On rank 0: says that reading failed. The other ranks throw DataError with `reason`.
  void fail(const std::string& reason);

  struct Received {
    at::Tensor parcel;
    LoaderProgress progress;
  };
  /// On the other ranks: returns what rank 0 has dealt, or nullopt when rank 0 has finished. Throws
  /// DataError when rank 0 has failed, CommError when the message is not the step that is due.
  std::optional<Received> receive();

 private:
  struct Header;
  void send(Header header);

  std::shared_ptr<Communicator> communicator_;
  std::int64_t step_ = 0;
};

[[noreturn]] void throw_not_portable();

/// Inside a `catch` block: throws DataError that says how batches are made to fit together.
[[noreturn]] void throw_unlike_batches();

/// Deals out what rank 0 reads. Source of the parts: `DataLoaderDispatcher` of Hugging Face
/// Accelerate.
template <typename Batch>
  requires Portable<Batch>
class DispatchFeed final : public BatchFeed<Batch> {
 public:
  struct Options {
    /// On rank 0: opens the batches that a single process would read, starting with batch `from`.
    std::function<std::unique_ptr<BatchFeed<Batch>>(std::size_t from)> open = nullptr;
    bool seekable = false;     ///< Whether opening at a later batch is cheaper than reading on.
    std::size_t skip = 0;      ///< Steps to leave out.
    std::size_t per_step = 1;  ///< Batches in a step.
    bool drop_last = false;    ///< Leaves out a last step with fewer than per_step batches.
    DispatchFunctions<Batch> functions = {};
  };
  DispatchFeed(std::shared_ptr<Communicator> communicator, Options settings)
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
      channel_.fail("an exception that is not a std::exception");
      throw;
    }
    if (parts.empty()) {
      channel_.finish();
      return std::nullopt;
    }
    channel_.deal(parcels, progress);
    return Fed<Batch>{std::move(parts.front()), progress};
  }

  // Runs within the first step, so that an error here reaches the other ranks. The first rows of
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

  // With drop_last, a step is known to be the last one only after an attempt to read the next step.
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

  // Keeps as many rows as there are ranks. fill_up cannot use batches without rows.
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

  // Repeats the first rows of the epoch, so that all ranks get equally many. Runs before padding,
  // because these rows may have another length.
  void fill_up(std::vector<Batch>& batches, std::int64_t missing) {
    for (std::size_t next = 0; missing > 0; next = (next + 1) % first_.size()) {
      batches.push_back(slice_batch(first_[next], 0, missing));
      missing -= first_rows_of(columns_of(batches.back()));
    }
  }

  DispatchChannel channel_;
  std::unique_ptr<BatchFeed<Batch>> base_;
  Options settings_;
  std::optional<Step> ahead_;
  std::exception_ptr error_;
  std::vector<Batch> first_;
  bool ended_ = false;
};

}  // namespace accelerate::detail
