// Functions that choose rows by a seed, as Python `datasets` does.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/dataset_dict.h"
#include "accelerate/transformers/datasets/iterable_dataset.h"
#include "accelerate/transformers/datasets/random/numpy_generator.h"

namespace accelerate {
namespace {

using detail::NumpyGenerator;

struct SplitRows {
  std::vector<std::uint64_t> train, test;
};

struct SplitSizes {
  std::size_t train, test;
};

bool is_share(double size) {
  return size < 1;
}

void check_size(const char* name, const std::optional<double>& size, std::size_t rows) {
  if (!size) return;
  const bool is_count =
      *size == std::floor(*size) && *size >= 1 && *size < static_cast<double>(rows);
  if (is_count || (*size > 0 && is_share(*size))) return;
  throw UsageError(std::string(name) + " is " + std::to_string(*size) + " of " +
                   std::to_string(rows) +
                   " rows; allowed are shares between 0 and 1 and row counts below the total");
}

// Divides `draws` among the classes in proportion to their counts, rounded down. What is left goes
// to the largest remainders; equal remainders are chosen at random.
std::vector<std::size_t> drawn_per_class(const std::vector<std::size_t>& counts, std::size_t draws,
                                         NumpyGenerator& random) {
  const auto all =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  std::vector<std::size_t> drawn;
  std::map<double, std::vector<std::size_t>, std::greater<>> by_remainder;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double exact = static_cast<double>(draws) * static_cast<double>(counts[i]) / all;
    drawn.push_back(static_cast<std::size_t>(std::floor(exact)));
    by_remainder[exact - std::floor(exact)].push_back(i);
  }
  std::size_t left = draws - std::accumulate(drawn.begin(), drawn.end(), std::size_t{0});
  for (const auto& [remainder, classes] : by_remainder) {
    if (left == 0) break;
    const std::size_t now = std::min(classes.size(), left);
    for (const std::uint64_t i : random.choice(classes.size(), now)) ++drawn[classes[i]];
    left -= now;
  }
  return drawn;
}

std::vector<std::vector<std::uint64_t>> rows_by_class(std::span<const std::int64_t> classes) {
  std::map<std::int64_t, std::vector<std::uint64_t>> found;
  for (std::size_t row = 0; row < classes.size(); ++row) found[classes[row]].push_back(row);
  std::vector<std::vector<std::uint64_t>> rows;
  for (auto& [name, some] : found) rows.push_back(std::move(some));
  return rows;
}

// Returns the sizes of the parts. `train` and `test` are shares below 1, or numbers of rows.
// Throws UsageError for sizes that are out of range, exceed `rows` together, or leave a part
// empty.
SplitSizes split_sizes(std::size_t rows, std::optional<double> train, std::optional<double> test) {
  if (!train && !test) test = 0.25;
  check_size("test_size", test, rows);
  check_size("train_size", train, rows);
  const auto all = static_cast<double>(rows);
  if (train && test && is_share(*train) && is_share(*test) && *train + *test > 1) {
    throw UsageError("train_size and test_size are " + std::to_string(*train + *test) +
                     " of the rows together; allowed is 1 at most");
  }
  std::size_t for_test = 0, for_train = 0;
  if (test) for_test = static_cast<std::size_t>(is_share(*test) ? std::ceil(*test * all) : *test);
  if (train)
    for_train = static_cast<std::size_t>(is_share(*train) ? std::floor(*train * all) : *train);
  if (!train) for_train = rows - std::min(rows, for_test);
  if (!test) for_test = rows - std::min(rows, for_train);
  if (for_train + for_test > rows) {
    throw UsageError("train_size and test_size are " + std::to_string(for_train + for_test) +
                     " rows together; there are " + std::to_string(rows));
  }
  if (for_train == 0)
    throw UsageError("no row is left to train on, of " + std::to_string(rows) +
                     ". Give a smaller test_size");
  return {for_train, for_test};
}

SplitRows split_in_order(const SplitSizes& sizes) {
  SplitRows rows;
  rows.train.resize(sizes.train);
  rows.test.resize(sizes.test);
  std::iota(rows.train.begin(), rows.train.end(), std::uint64_t{0});
  std::iota(rows.test.begin(), rows.test.end(), std::uint64_t{sizes.train});
  return rows;
}

SplitRows split_at_random(std::size_t rows, const SplitSizes& sizes, std::uint64_t seed) {
  const auto order = NumpyGenerator(seed).permutation(rows);
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(sizes.test);
  return {.train = {middle, middle + static_cast<std::ptrdiff_t>(sizes.train)},
          .test = {order.begin(), middle}};
}

// Gives each class the same share in both parts. `classes`: one number a row. Throws UsageError
// for a class with a single row, and for parts with fewer rows than there are classes. Source:
// datasets/utils/stratify.py.
SplitRows split_by_class(std::span<const std::int64_t> classes, const SplitSizes& sizes,
                         std::uint64_t seed) {
  const auto rows = rows_by_class(classes);
  std::vector<std::size_t> counts;
  for (const auto& some : rows) {
    if (some.size() < 2)
      throw UsageError("a class has 1 row; a split by class needs 2 or more of each");
    counts.push_back(some.size());
  }
  if (sizes.train < rows.size() || sizes.test < rows.size()) {
    throw UsageError("the parts have " + std::to_string(sizes.train) + " and " +
                     std::to_string(sizes.test) + " rows; each needs one for each of " +
                     std::to_string(rows.size()) + " classes");
  }
  NumpyGenerator random(seed);
  const auto for_train = drawn_per_class(counts, sizes.train, random);
  auto left = counts;
  for (std::size_t i = 0; i < left.size(); ++i) left[i] -= for_train[i];
  const auto for_test = drawn_per_class(left, sizes.test, random);
  SplitRows parts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto order = random.permutation(counts[i]);
    for (std::size_t k = 0; k < for_train[i]; ++k) parts.train.push_back(rows[i][order[k]]);
    for (std::size_t k = for_train[i]; k < for_train[i] + for_test[i]; ++k)
      parts.test.push_back(rows[i][order[k]]);
  }
  random.shuffle(std::span(parts.train));
  random.shuffle(std::span(parts.test));
  return parts;
}

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
NumpyGenerator generator_of_pass(std::uint64_t seed, std::size_t epoch) {
  NumpyGenerator random(seed);
  if (epoch == 0) return random;
  constexpr std::uint64_t kMost = (std::uint64_t{1} << 63) - 1;
  const auto drawn =
      static_cast<std::int64_t>(random.bounded(kMost)) - static_cast<std::int64_t>(epoch);
  return NumpyGenerator(static_cast<std::uint64_t>(drawn) & kMost);
}

// Collects rows until there are enough, shuffles them, and lets half of them leave.
class ShuffleBuffer {
 public:
  ShuffleBuffer(IterableDataset::Next next, NumpyGenerator random, std::size_t size)
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
  NumpyGenerator random_;
  std::size_t size_;
  std::deque<Row> rows_;
  std::size_t leaving_ = 0;
};

}  // namespace

Dataset Dataset::shuffle(const ShuffleOptions& options) const {
  return select(NumpyGenerator(options.seed).permutation(size()));
}

DatasetDict Dataset::train_test_split(const TrainTestSplitOptions& options) const {
  if (size() == 0) return DatasetDict({{"train", *this}, {"test", *this}});
  const auto sizes = split_sizes(size(), options.train_size, options.test_size);
  if (!options.shuffle && !options.stratify_by_column.empty()) {
    throw UsageError(
        "stratify_by_column was given with shuffle = false; rows are chosen by class only at "
        "random");
  }
  const auto rows =
      !options.shuffle ? split_in_order(sizes)
      : options.stratify_by_column.empty()
          ? split_at_random(size(), sizes, options.seed)
          : split_by_class(classes_of(*this, options.stratify_by_column), sizes, options.seed);
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
