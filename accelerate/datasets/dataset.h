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

#include "accelerate/datasets/features.h"
#include "accelerate/datasets/row.h"
#include "accelerate/datasets/row_batch.h"
#include "accelerate/hub/push.h"

namespace accelerate {
namespace detail {
class Table;
}
class DatasetDict;

/// Options of Dataset::map().
struct MapOptions {
  /// Keeps the result on disk, under a key of the dataset's content, these options and this name;
  /// the next map of that key maps the file. Change the name when the function changes: a function
  /// has no content to look at. Empty: the result stays in memory.
  std::string name = {};
  std::size_t batch_size = 1000;  ///< Rows that a batched function gets; the last may be fewer.
  std::size_t num_proc = 1;       ///< Threads that call the function, several at a time.
  std::vector<std::string> remove_columns = {};
  /// The types of the result; else those of the first batch's result.
  std::optional<Features> features = {};
  bool load_from_cache_file = true;      ///< Otherwise computes anew.
  std::filesystem::path cache_dir = {};  ///< Else datasets_cache_folder().
};

struct ShuffleOptions {
  std::uint64_t seed = 0;
};

struct SortOptions {
  bool reverse = false;
  bool nulls_at_end = true;  ///< Where rows without a value go.
};

struct TrainTestSplitOptions {
  /// A share below 1, or a number of rows; 0.25 when neither size is given.
  std::optional<double> test_size = {}, train_size = {};
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// A column of class labels: both parts get each class in the same share.
  std::string stratify_by_column = {};
};

/// ACCELERATE_DATASETS_CACHE, else HF_DATASETS_CACHE/accelerate, else datasets/accelerate below
/// hugging_face_home(). Expands "~" and $VARIABLES. An empty variable does not count.
[[nodiscard]] std::filesystem::path datasets_cache_folder();

/// A value handle: copies share the rows. Immutable but for set_format(): every other function
/// gives a new dataset. Several threads may read one. Rows are views of a table: select(),
/// shuffle(), sort() and the like only keep row numbers.
class Dataset {
 public:
  Dataset() = default;
  /// Column by column. Throws UsageError for columns of unequal length.
  [[nodiscard]] static Dataset from_columns(const RowBatch& columns);
  /// Throws DataError, with the number of the row, for a row with other columns or types than those
  /// before.
  [[nodiscard]] static Dataset from_rows(const std::vector<Row>& rows,
                                         std::optional<Features> features = {});
  [[nodiscard]] static Dataset of_table(std::shared_ptr<const detail::Table> table);

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] const Features& features() const { return features_; }
  [[nodiscard]] std::vector<std::string> column_names() const;
  [[nodiscard]] bool has_column(std::string_view name) const;
  /// Throws UsageError for a name that is not there, with the nearest one.
  [[nodiscard]] const Feature& feature(std::string_view name) const;

  /// Row `index`, with the columns of set_format(). Throws UsageError at the end or behind it.
  [[nodiscard]] Row operator[](std::size_t index) const;
  [[nodiscard]] Row get(std::size_t index) const { return (*this)[index]; }
  /// All of a column. Cost: a copy.
  [[nodiscard]] std::vector<Value> column(std::string_view name) const;
  /// Rows [begin, end) as columns.
  [[nodiscard]] RowBatch batch(std::size_t begin, std::size_t end) const;

  class Iterator;
  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] Iterator end() const;

  /// Calls `function` for each row or batch, and puts what it gives into the row or in the place of
  /// the batch: columns of the same name change, others are added. A function of a Row gives a Row,
  /// a function of a RowBatch a RowBatch, which may have another number of rows if all old columns
  /// are removed or replaced. With several threads it must be safe to call at once. Throws what
  /// `function` throws, with the rows; DataError for a result of another type than the first one's.
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
  /// The rows for which `keeps` is true. With several threads it must be safe to call at once.
  [[nodiscard]] Dataset filter(const std::function<bool(const Row&)>& keeps,
                               std::size_t num_proc = 1) const;

  /// Those rows, in that order, each as often as it comes. Throws UsageError for a row behind the
  /// end.
  [[nodiscard]] Dataset select(const std::vector<std::uint64_t>& rows) const;
  /// Rows [begin, end).
  [[nodiscard]] Dataset slice(std::size_t begin, std::size_t end) const;
  /// The order that Python `datasets` gives for this seed.
  [[nodiscard]] Dataset shuffle(const ShuffleOptions& options = {}) const;
  /// By a column of numbers, booleans or strings (by bytes); equal values keep their order.
  [[nodiscard]] Dataset sort(std::string_view column, const SortOptions& options = {}) const;
  /// "train" and "test", with the rows that Python `datasets` chooses for this seed. Throws
  /// UsageError for sizes that leave one empty.
  [[nodiscard]] DatasetDict train_test_split(const TrainTestSplitOptions& options = {}) const;
  /// Every `num_shards`-th row from `index` on, or with `contiguous` the index-th stretch.
  [[nodiscard]] Dataset shard(std::size_t num_shards, std::size_t index,
                              bool contiguous = true) const;

  [[nodiscard]] Dataset rename_column(std::string_view from, std::string_view to) const;
  [[nodiscard]] Dataset rename_columns(
      const std::vector<std::pair<std::string, std::string>>& names) const;
  [[nodiscard]] Dataset remove_columns(const std::vector<std::string>& names) const;
  [[nodiscard]] Dataset select_columns(const std::vector<std::string>& names) const;
  /// Strings, integers or booleans become class labels, the names sorted as strings. Throws
  /// UsageError for a column of floats or lists.
  [[nodiscard]] Dataset class_encode_column(std::string_view name) const;
  /// Which columns [index] shows from now on; empty: all. Other functions still see all. A dataset
  /// with other columns, as map() and select_columns() make, shows all.
  /// Not of dict["train"], which is a copy: of a dataset that has a name, or of the whole dict.
  void set_format(const std::vector<std::string>& columns = {}) &;

  /// Writes all columns to a Parquet file, which Python `datasets` and load_dataset() read with the
  /// same rows and features, class labels too. The file appears whole or not at all, and replaces
  /// another of its name; its folder must exist. Throws FileError for what the system refuses,
  /// ConfigError in a build without Arrow, DataError for a row with 2^31 bytes of text or entries
  /// of lists in a column. Cost: a row group in memory, about 16 MiB or one longer row.
  void to_parquet(const std::filesystem::path& file) const;
  /// DatasetDict::push_to_hub() of one split.
  CommitInfo push_to_hub(const std::string& repo_id, const PushToHubOptions& options = {},
                         const std::string& split = "train") const;

  /// Equal only for equal rows, names and types. Of files that load_dataset() keeps in its cache it
  /// stands for their paths, sizes and times instead of their content.
  [[nodiscard]] std::string fingerprint() const;
  [[nodiscard]] const std::shared_ptr<const detail::Table>& table() const { return table_; }
  /// The table's rows that this shows; nullptr: all.
  [[nodiscard]] const std::shared_ptr<const std::vector<std::uint64_t>>& rows() const {
    return rows_;
  }
  /// Where each of features() is in the table.
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
  /// Where each feature is in the table, and which ones [index] shows.
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

/// The rows of all, one dataset behind the other. Throws UsageError when their columns differ in
/// name or type; the order of the first one's columns counts.
[[nodiscard]] Dataset concatenate_datasets(const std::vector<Dataset>& datasets);

}  // namespace accelerate
