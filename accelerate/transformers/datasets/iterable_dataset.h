// Rows that are read when they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/row.h"
#include "accelerate/transformers/datasets/splits.h"

namespace accelerate {

/// A source of rows, read from its beginning at each begin(). A value handle, for one thread at a
/// time. make_data_loader accepts it.
class IterableDataset {
 public:
  /// Returns the next row; nullopt at the end.
  using Next = std::function<std::optional<Row>()>;
  /// Begins a pass of the given epoch.
  using Begin = std::function<Next(std::size_t epoch)>;

  explicit IterableDataset(Begin begin, std::optional<Features> features = {})
      : begin_(std::move(begin)), features_(std::move(features)) {}

  /// The types of the columns; nullopt after map().
  [[nodiscard]] const std::optional<Features>& features() const { return features_; }

  [[nodiscard]] IterableDataset map(std::function<Row(const Row&)> function,
                                    std::vector<std::string> remove_columns = {}) const;
  [[nodiscard]] IterableDataset filter(std::function<bool(const Row&)> keeps) const;
  /// Reads `buffer_size` rows, shuffles them, gives half of them, and fills up again. This is the
  /// order that Python `datasets` gives for rows that arrive one by one. Each epoch (set_epoch())
  /// has another order.
  [[nodiscard]] IterableDataset shuffle(std::uint64_t seed, std::size_t buffer_size = 1000) const;
  [[nodiscard]] IterableDataset take(std::size_t count) const;
  [[nodiscard]] IterableDataset skip(std::size_t count) const;

  /// Sets the epoch, counted from 0, of passes that begin from now on. A loader calls it before
  /// each pass. Affects only this handle: copies keep their epochs.
  void set_epoch(std::int64_t epoch) { epoch_ = static_cast<std::size_t>(epoch); }

  class Iterator;
  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }

 private:
  Begin begin_;
  std::optional<Features> features_;
  std::size_t epoch_ = 0;
};

class IterableDataset::Iterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = Row;

  explicit Iterator(Next next) : next_(std::move(next)), row_(next_()) {}
  const Row& operator*() const { return *row_; }
  Iterator& operator++() {
    row_ = next_();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !row_; }

 private:
  Next next_;
  std::optional<Row> row_;
};

inline IterableDataset::Iterator IterableDataset::begin() const {
  return Iterator(begin_(epoch_));
}

class IterableDatasetDict : public detail::Splits<IterableDataset> {
 public:
  using detail::Splits<IterableDataset>::Splits;
};

}  // namespace accelerate
