// Dataset::map() and filter(): call a function on several threads and collect its results in order.
#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/parallel_work.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/datasets/cell_error.h"
#include "accelerate/transformers/datasets/dataset.h"
#include "accelerate/transformers/datasets/names.h"
#include "accelerate/transformers/datasets/storage/table_builder.h"
#include "accelerate/transformers/datasets/storage/table_file.h"

namespace accelerate {
namespace {

// `first_row`: the number of the first row of the batch in the dataset.
using BatchFunction = std::function<RowBatch(const RowBatch&, std::size_t first_row)>;

// Returns the columns of `batch` that stay, and the columns of the function's result.
RowBatch updated(const RowBatch& batch, const RowBatch& result,
                 const std::vector<std::string>& removed) {
  RowBatch whole;
  for (const auto& [name, feature, column] : batch.columns()) {
    if (std::ranges::find(removed, name) == removed.end() && !result.contains(name))
      whole.set_column(name, feature, column);
  }
  const bool keeps_some = !whole.columns().empty();
  // Columns of `batch` keep their places.
  RowBatch ordered;
  for (const auto& named : batch.columns()) {
    for (const RowBatch* source : std::initializer_list<const RowBatch*>{&whole, &result}) {
      for (const auto& [name, feature, column] : source->columns()) {
        if (name == named.name) ordered.set_column(name, feature, column);
      }
    }
  }
  for (const auto& [name, feature, column] : result.columns())
    ordered.set_column(name, feature, column);
  for (const auto& [name, feature, column] : ordered.columns()) {
    if (column.size() == ordered.size()) continue;
    const auto rows = std::to_string(batch.size());
    throw UsageError("the function returned " + std::to_string(result.size()) +
                     " rows for a batch of " + rows +
                     (keeps_some ? ", but the batch's other columns keep " + rows +
                                       " rows. Drop them by {.remove_columns}"
                                 : ", in columns of unequal length. Return equally many values "
                                   "in each column"));
  }
  return ordered;
}

// Fills a table builder, which it makes when the first batch arrives with its columns.
class Collector {
 public:
  Collector(const MapOptions& options, std::unique_ptr<detail::ChunkSink> sink)
      : options_(options), sink_(std::move(sink)) {}

  void add(const RowBatch& batch) {
    if (!builder_) begin(batch);
    check_names(batch);
    std::vector<detail::ColumnChunk> columns;
    for (const auto& [name, feature] : builder_->features())
      columns.push_back(fitting(batch, name, feature));
    builder_->append(columns, 0, batch.size());
  }

  std::shared_ptr<const detail::Table> finish(const Features& features_if_empty) {
    if (!builder_)
      builder_.emplace(options_.features.value_or(features_if_empty), std::move(sink_));
    return builder_->finish();
  }

 private:
  void begin(const RowBatch& batch) {
    Features features;
    for (const auto& named : batch.columns()) features.emplace_back(named.name, named.feature);
    builder_.emplace(options_.features.value_or(std::move(features)), std::move(sink_));
  }

  void check_names(const RowBatch& batch) const {
    const auto known = detail::names_of(builder_->features());
    for (const auto& named : batch.columns()) {
      if (std::ranges::find(known, named.name) != known.end()) continue;
      throw DataError("the result has a column '" + named.name + "', which is none of: " +
                      join(known, ", ") + ". Name all columns by {.features}");
    }
  }

  static detail::ColumnChunk fitting(const RowBatch& batch, const std::string& name,
                                     const Feature& feature) {
    const auto found = std::ranges::find(batch.columns(), name, &RowBatch::NamedColumn::name);
    if (found == batch.columns().end())
      throw DataError("the result has no column '" + name +
                      "', which the first batch or {.features} has");
    if (found->feature == feature || found->feature.kind() == Feature::Kind::null)
      return found->column;
    detail::ColumnBuilder builder(feature);
    try {
      for (std::size_t i = 0; i < found->column.size(); ++i) builder.append(found->column.at(i));
    } catch (const DataError& error) {
      throw DataError("column '" + name + "': " + error.what() +
                      ". Convert the values in the function, or name other types by {.features}");
    }
    return builder.finish();
  }

  const MapOptions& options_;
  std::unique_ptr<detail::ChunkSink> sink_;
  std::optional<detail::TableBuilder> builder_;
};

std::string key_of(const Dataset& dataset, const MapOptions& options, const char* kind) {
  std::string removed;
  for (const std::string& name : options.remove_columns) removed += name + "\n";
  const std::string types = options.features ? detail::write_features(*options.features) : "";
  return detail::fingerprint_of({"map", kind, dataset.fingerprint(), options.name,
                                 std::to_string(options.batch_size), removed, types});
}

void check(const Dataset& dataset, const MapOptions& options) {
  if (options.batch_size == 0) throw UsageError("batch_size is 0; allowed are 1 or more rows");
  if (options.num_proc == 0) throw UsageError("num_proc is 0; allowed are 1 or more threads");
  for (const std::string& name : options.remove_columns) (void)dataset.feature(name);
  if (options.features) detail::check_features(*options.features);
}

std::shared_ptr<const detail::Table> computed(const Dataset& dataset, const BatchFunction& function,
                                              const MapOptions& options,
                                              std::unique_ptr<detail::ChunkSink> sink) {
  Collector collector(options, std::move(sink));
  const std::size_t rows = std::clamp(dataset.size(), std::size_t{1}, options.batch_size);
  const std::size_t batches = dataset.size() / rows + (dataset.size() % rows == 0 ? 0 : 1);
  const auto result_of = [&](std::size_t i) {
    const std::size_t begin = i * rows, end = std::min(begin + rows, dataset.size());
    try {
      const RowBatch batch = dataset.batch(begin, end);
      return updated(batch, function(batch, begin), options.remove_columns);
    } catch (const Error& error) {
      throw_with_context<DataError>("the function of map() failed in rows " +
                                    std::to_string(begin) + " to " + std::to_string(end - 1));
    }
  };
  detail::in_order(batches, options.num_proc, result_of,
                   [&](const RowBatch& result) { collector.add(result); });
  return collector.finish(dataset.remove_columns(options.remove_columns).features());
}

Dataset mapped(const Dataset& dataset, const BatchFunction& function, const MapOptions& options,
               const char* kind) {
  check(dataset, options);
  if (options.name.empty())
    return Dataset::of_table(computed(dataset, function, options, detail::sink_in_memory()));
  const std::string key = key_of(dataset, options, kind);
  const auto folder = options.cache_dir.empty() ? datasets_cache_folder() : options.cache_dir;
  const auto file = folder / ("map-" + key + ".table");
  if (options.load_from_cache_file) {
    if (auto table = detail::open_cached_table(file)) return Dataset::of_table(std::move(table));
  }
  return Dataset::of_table(computed(dataset, function, options, detail::sink_in_file(file, key)));
}

}  // namespace

Dataset Dataset::map_batches(const std::function<RowBatch(const RowBatch&)>& function,
                             const MapOptions& options) const {
  const auto of_batch = [&](const RowBatch& batch, std::size_t) { return function(batch); };
  return mapped(*this, of_batch, options, "batches");
}

Dataset Dataset::map_rows(const std::function<Row(const Row&)>& function,
                          const MapOptions& options) const {
  const auto of_batch = [&](const RowBatch& batch, std::size_t first_row) {
    std::vector<std::pair<std::string, std::vector<Value>>> columns;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Row result = detail::called_on_row(function, batch.row(i), first_row + i);
      if (i == 0) {
        for (const auto& [name, value] : result) columns.emplace_back(name, std::vector<Value>());
      }
      if (result.size() != columns.size())
        throw DataError("row " + std::to_string(i) + " of the batch gave " +
                        std::to_string(result.size()) + " columns, and its first row " +
                        std::to_string(columns.size()) + "; give the same columns for each row");
      for (std::size_t column = 0; column < columns.size(); ++column) {
        auto& [name, values] = columns[column];
        const Value* value = result.find(name, column);
        values.push_back(value != nullptr ? *value : result[name]);
      }
    }
    RowBatch made;
    for (const auto& [name, values] : columns) made.set(name, values);
    return made;
  };
  return mapped(*this, of_batch, options, "rows");
}

Dataset Dataset::filter(const std::function<bool(const Row&)>& keeps, std::size_t num_proc) const {
  if (num_proc == 0) throw UsageError("num_proc is 0; allowed are 1 or more threads");
  constexpr std::size_t kRows = 1000;
  const std::size_t parts = (size() + kRows - 1) / kRows;
  Dataset all = *this;
  all.set_format();
  const auto kept_of = [&](std::size_t part) {
    std::vector<std::uint64_t> kept;
    for (std::size_t i = part * kRows; i < std::min((part + 1) * kRows, size()); ++i) {
      if (detail::called_on_row(keeps, all[i], i)) kept.push_back(i);
    }
    return kept;
  };
  std::vector<std::uint64_t> rows;
  detail::in_order(parts, num_proc, kept_of, [&](const std::vector<std::uint64_t>& kept) {
    rows.insert(rows.end(), kept.begin(), kept.end());
  });
  return select(rows);
}

}  // namespace accelerate
