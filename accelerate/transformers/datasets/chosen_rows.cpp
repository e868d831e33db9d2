// Functions that choose rows by a seed.
#include <algorithm>
#include <deque>
#include <memory>

#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/dataset_dict.h"
#include "accelerate/transformers/datasets/iterable_dataset.h"
#include "accelerate/transformers/datasets/random/numpy_generator.h"
#include "accelerate/transformers/datasets/random/split_rows.h"

namespace accelerate {
namespace {

std::vector<std::int64_t> classes_of(const Dataset& dataset, const std::string& name) {
  if (!dataset.feature(name).is_class_label()) {
    throw UsageError("stratify_by_column is '" + name + "', which has " +
                     dataset.feature(name).description() +
                     "; allowed are class labels. class_encode_column() makes them");
  }
  std::vector<std::int64_t> classes;
  for (const Value& value : dataset.column(name)) {
    if (value.is_missing())
      throw UsageError("stratify_by_column is '" + name +
                       "', which has a missing value; every row needs a class");
    classes.push_back(value.integer());
  }
  return classes;
}

// Returns the generator of a pass. The first pass uses the seed itself; a later pass uses a seed
// drawn by it and changed by the number of the pass.
detail::NumpyGenerator generator_of_pass(std::uint64_t seed, std::size_t epoch) {
  detail::NumpyGenerator random(seed);
  if (epoch == 0) return random;
  constexpr std::uint64_t kMost = (std::uint64_t{1} << 63) - 1;
  const auto drawn =
      static_cast<std::int64_t>(random.bounded(kMost)) - static_cast<std::int64_t>(epoch);
  return detail::NumpyGenerator(static_cast<std::uint64_t>(drawn) & kMost);
}

// Collects rows until there are enough, shuffles them, and lets half of them leave.
class ShuffleBuffer {
 public:
  ShuffleBuffer(IterableDataset::Next next, detail::NumpyGenerator random, std::size_t size)
      : next_(std::move(next)), random_(random), size_(size) {}

  std::optional<Row> operator()() {
    if (leaving_ == 0) fill();
    if (leaving_ == 0) return std::nullopt;
    --leaving_;
    Row row = std::move(rows_.front());
    rows_.pop_front();
    return row;
  }

 private:
  void fill() {
    bool is_drained = false;
    while (rows_.size() < size_ && !is_drained) {
      auto row = next_();
      is_drained = !row;
      if (row) rows_.push_back(std::move(*row));
    }
    std::deque<Row> shuffled;
    for (const std::uint64_t i : random_.permutation(rows_.size()))
      shuffled.push_back(std::move(rows_[i]));
    rows_ = std::move(shuffled);
    leaving_ = is_drained ? rows_.size() : rows_.size() - size_ / 2;
  }

  IterableDataset::Next next_;
  detail::NumpyGenerator random_;
  std::size_t size_;
  std::deque<Row> rows_;
  std::size_t leaving_ = 0;
};

}  // namespace

Dataset Dataset::shuffle(const ShuffleOptions& options) const {
  return select(detail::NumpyGenerator(options.seed).permutation(size()));
}

DatasetDict Dataset::train_test_split(const TrainTestSplitOptions& options) const {
  if (size() == 0) return DatasetDict({{"train", *this}, {"test", *this}});
  const auto sizes = detail::split_sizes(size(), options.train_size, options.test_size);
  if (!options.shuffle && !options.stratify_by_column.empty()) {
    throw UsageError(
        "stratify_by_column was given with shuffle = false; rows are chosen by class only at "
        "random");
  }
  const auto rows = !options.shuffle ? detail::split_in_order(sizes)
                    : options.stratify_by_column.empty()
                        ? detail::split_at_random(size(), sizes, options.seed)
                        : detail::split_by_class(classes_of(*this, options.stratify_by_column),
                                                 sizes, options.seed);
  return DatasetDict({{"train", select(rows.train)}, {"test", select(rows.test)}});
}

IterableDataset IterableDataset::shuffle(std::uint64_t seed, std::size_t buffer_size) const {
  if (buffer_size == 0) throw UsageError("buffer_size is 0; allowed are 1 or more rows");
  return IterableDataset(
      [begin = begin_, seed, buffer_size](std::size_t epoch) -> Next {
        return ShuffleBuffer(begin(epoch), generator_of_pass(seed, epoch), buffer_size);
      },
      features_);
}

}  // namespace accelerate
