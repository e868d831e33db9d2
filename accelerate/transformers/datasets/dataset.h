// Rows with typed columns, in memory or in mapped files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/row.h"
#include "accelerate/transformers/datasets/row_batch.h"
#include "accelerate/transformers/hub/push.h"

namespace accelerate {
namespace detail {
class Table;
}
class DatasetDict;

/// Options of Dataset::map().
struct MapOptions {
  /// Keeps the result on disk, under a key made of the dataset's content, these options and this
  /// name. The next map() with an equal key maps the file into memory. Change the name when the
  /// function changes, because the content of a function cannot be compared. Empty: the result
  /// stays in memory.
  std::string name = {};
  std::size_t batch_size = 1000;  ///< Rows that a batched function gets, except in the last batch.
  std::size_t num_proc = 1;       ///< Threads that call the function concurrently.
  std::vector<std::string> remove_columns = {};
  /// The types of the result. Default: the types of the first batch's result.
  std::optional<Features> features = {};
  bool load_from_cache_file = true;      ///< false: computes the result again.
  std::filesystem::path cache_dir = {};  ///< Default: datasets_cache_folder().
};

struct ShuffleOptions {
  std::uint64_t seed = 0;
};

struct SortOptions {
  bool reverse = false;
  bool nulls_at_end = true;  ///< Whether rows without a value go to the end or to the beginning.
};

struct TrainTestSplitOptions {
  /// A share below 1, or a number of rows. If neither size is given, test_size is 0.25.
  std::optional<double> test_size = {}, train_size = {};
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// A column of class labels. Each class gets the same share in both parts.
  std::string stratify_by_column = {};
};

/// Returns ACCELERATE_DATASETS_CACHE, else HF_DATASETS_CACHE/accelerate, else datasets/accelerate
/// below hugging_face_home(). Expands "~" and $VARIABLES. Ignores empty variables.
[[nodiscard]] std::filesystem::path datasets_cache_folder();

/// Rows with typed columns. A value handle: copies share the rows. Immutable except for
/// set_format(): every other function returns a new dataset. Several threads may read a dataset.
/// Rows are views of a table: select(), shuffle(), sort() and similar functions only keep row
/// numbers.
class Dataset {
 public:
  Dataset() = default;
  /// Makes a dataset of columns. Throws UsageError for columns of unequal length.
  [[nodiscard]] static Dataset from_columns(const RowBatch& columns);
  /// Makes a dataset of rows. Throws DataError, with the number of the row, when a row has other
  /// columns or types than the rows before it.
  [[nodiscard]] static Dataset from_rows(const std::vector<Row>& rows,
                                         std::optional<Features> features = {});
  [[nodiscard]] static Dataset of_table(std::shared_ptr<const detail::Table> table);

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] const Features& features() const { return features_; }
  [[nodiscard]] std::vector<std::string> column_names() const;
  [[nodiscard]] bool has_column(std::string_view name) const;
  /// Returns the type of a column. Throws UsageError for an unknown name, and suggests the nearest
  /// name.
  [[nodiscard]] const Feature& feature(std::string_view name) const;

  /// Returns row `index`, with the columns of set_format(). Throws UsageError unless index <
  /// size().
  [[nodiscard]] Row operator[](std::size_t index) const;
  [[nodiscard]] Row get(std::size_t index) const { return (*this)[index]; }
  /// Returns all values of a column. Cost: a copy.
  [[nodiscard]] std::vector<Value> column(std::string_view name) const;
  /// Returns rows [begin, end) as columns. Throws UsageError for rows that do not exist.
  [[nodiscard]] RowBatch batch(std::size_t begin, std::size_t end) const;

  class Iterator;
  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] Iterator end() const;

  /// Calls `function` for each row or batch and merges its result into the row or batch. Columns of
  /// the same name are replaced, other columns are added. A function of a Row returns a Row; a
  /// function of a RowBatch returns a RowBatch. That RowBatch may have another number of rows if
  /// all old columns are removed or replaced. With several threads, `function` must be safe to call
  /// concurrently. Throws DataError, with the rows and the nested cause, when `function` throws an
  /// accelerate::Error; other exceptions of `function` pass through. Throws DataError when a result
  /// has another type than the first result.
  template <typename Function>
  [[nodiscard]] Dataset map(Function function, const MapOptions& options = {}) const {
    if constexpr (std::is_invocable_r_v<Row, Function, const Row&>) {
      return map_rows(std::move(function), options);
    } else {
      static_assert(
          std::is_invocable_r_v<RowBatch, Function, const RowBatch&>,
          "map needs a function of a Row that gives a Row, or of a RowBatch that gives a RowBatch");
      return map_batches(std::move(function), options);
    }
  }
  /// Returns the rows for which `keeps` is true. With num_proc > 1, `keeps` must be safe to call
  /// concurrently.
  [[nodiscard]] Dataset filter(const std::function<bool(const Row&)>& keeps,
                               std::size_t num_proc = 1) const;

  /// Returns the given rows, in the given order; rows may repeat. Throws UsageError for a row that
  /// does not exist.
  [[nodiscard]] Dataset select(const std::vector<std::uint64_t>& rows) const;
  /// Returns rows [begin, end). Throws UsageError for rows that do not exist.
  [[nodiscard]] Dataset slice(std::size_t begin, std::size_t end) const;
  /// Returns all rows in the order that Python `datasets` gives for this seed.
  [[nodiscard]] Dataset shuffle(const ShuffleOptions& options = {}) const;
  /// Sorts by a column of numbers, booleans or strings (compared by bytes). Equal values keep their
  /// order. Throws UsageError for a column of lists.
  [[nodiscard]] Dataset sort(std::string_view column, const SortOptions& options = {}) const;
  /// Returns the splits "train" and "test", with the rows that Python `datasets` chooses for this
  /// seed. Throws UsageError for sizes that are out of range or leave a split empty.
  [[nodiscard]] DatasetDict train_test_split(const TrainTestSplitOptions& options = {}) const;
  /// With `contiguous`, returns the index-th of `num_shards` stretches of rows. Without it, returns
  /// every `num_shards`-th row from `index` on.
  [[nodiscard]] Dataset shard(std::size_t num_shards, std::size_t index,
                              bool contiguous = true) const;

  [[nodiscard]] Dataset rename_column(std::string_view from, std::string_view to) const;
  [[nodiscard]] Dataset rename_columns(
      const std::vector<std::pair<std::string, std::string>>& names) const;
  [[nodiscard]] Dataset remove_columns(const std::vector<std::string>& names) const;
  [[nodiscard]] Dataset select_columns(const std::vector<std::string>& names) const;
  /// Makes strings, integers or booleans into class labels. Class names are sorted as strings.
  /// Throws UsageError for a column of floats, lists or class labels, and for a column without
  /// values.
  [[nodiscard]] Dataset class_encode_column(std::string_view name) const;
  /// Sets the columns that [index] shows from now on; empty: all columns. Other functions still see
  /// all columns. Datasets that map() or select_columns() make show all columns. Call it on a named
  /// dataset or on the whole dict: dict["train"] is a temporary copy.
  void set_format(const std::vector<std::string>& columns = {}) &;

  /// Writes all columns to a Parquet file. Python `datasets` and load_dataset() read it with the
  /// same rows and features, class labels included. The file appears whole or not at all, and
  /// replaces an existing file. Its folder must exist. Throws FileError when the system refuses to
  /// write, and ConfigError in a build without Arrow. Throws DataError when a column has a row of
  /// 2^31 or more bytes of text or list entries. Cost: memory for one row group, about 16 MiB or
  /// one longer row.
  void to_parquet(const std::filesystem::path& file) const;
  /// Pushes this dataset as one split. See DatasetDict::push_to_hub().
  CommitInfo push_to_hub(const std::string& repo_id, const PushToHubOptions& options = {},
                         const std::string& split = "train") const;

  /// Returns a hash that is equal only for equal rows, names and types. For files that
  /// load_dataset() keeps in its cache, their paths, sizes and times of change stand for their
  /// content.
  [[nodiscard]] std::string fingerprint() const;
  [[nodiscard]] const std::shared_ptr<const detail::Table>& table() const { return table_; }
  /// The rows of the table that this dataset shows; nullptr: all rows.
  [[nodiscard]] const std::shared_ptr<const std::vector<std::uint64_t>>& rows() const {
    return rows_;
  }
  /// The place of each of features() among the columns of the table.
  [[nodiscard]] const std::vector<std::size_t>& table_columns() const { return columns_; }

 private:
  friend Dataset concatenate_datasets(const std::vector<Dataset>& datasets);

  [[nodiscard]] Dataset map_rows(const std::function<Row(const Row&)>& function,
                                 const MapOptions& options) const;
  [[nodiscard]] Dataset map_batches(const std::function<RowBatch(const RowBatch&)>& function,
                                    const MapOptions& options) const;
  [[nodiscard]] std::size_t table_row(std::size_t index) const {
    return rows_ ? (*rows_)[index] : index;
  }
  [[nodiscard]] std::size_t place_of_column(std::string_view name) const;
  [[nodiscard]] Dataset with_rows(std::vector<std::uint64_t> rows) const;

  std::shared_ptr<const detail::Table> table_;
  std::shared_ptr<const std::vector<std::uint64_t>> rows_;
  Features features_;
  /// The place of each feature in the table, and the features that [index] shows.
  std::vector<std::size_t> columns_, shown_;
};

class Dataset::Iterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = Row;

  Iterator() = default;
  Iterator(const Dataset* dataset, std::size_t index) : dataset_(dataset), index_(index) {}
  Row operator*() const { return (*dataset_)[index_]; }
  Iterator& operator++() {
    ++index_;
    return *this;
  }
  Iterator operator++(int) { return {dataset_, index_++}; }
  bool operator==(const Iterator& other) const { return index_ == other.index_; }

 private:
  const Dataset* dataset_ = nullptr;
  std::size_t index_ = 0;
};

inline Dataset::Iterator Dataset::begin() const {
  return {this, 0};
}
inline Dataset::Iterator Dataset::end() const {
  return {this, size()};
}

/// Returns the rows of all datasets, one dataset after the other. Columns have the order of the
/// first dataset. Throws UsageError when the datasets differ in column names or types.
[[nodiscard]] Dataset concatenate_datasets(const std::vector<Dataset>& datasets);

}  // namespace accelerate
