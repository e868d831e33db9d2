#include "accelerate/transformers/datasets/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/names.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"
#include "accelerate/transformers/datasets/storage/table_builder.h"
#include "accelerate/transformers/datasets/storage/table_file.h"
#include "accelerate/transformers/hub/cache/cache.h"
#include "accelerate/transformers/hub/cache/python_paths.h"

namespace accelerate {
namespace {

using detail::Table;
using Kind = Feature::Kind;

Features features_of_rows(const std::vector<Row>& rows) {
  Features features;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [name, value] : rows[i]) {
      auto known = std::ranges::find_if(features,
                                        [&](const auto& feature) { return feature.first == name; });
      if (known == features.end()) {
        if (i > 0)
          throw DataError("row " + std::to_string(i) + " has '" + name +
                          "', which the rows before do not have");
        known = features.insert(features.end(), {name, Feature::null()});
      }
      auto wider = detail::feature_of(value, known->second);
      if (!wider) {
        throw DataError("row " + std::to_string(i) + ": '" + name + "' is " + value.description() +
                        ", and was " + known->second.description() + " before");
      }
      known->second = std::move(*wider);
    }
  }
  return features;
}

// Returns rows of `column` in the order of `rows`. Copies consecutive rows together.
detail::ColumnChunk gathered(const Table& table, std::size_t column, const Feature& feature,
                             const std::vector<std::uint64_t>& rows) {
  detail::ColumnBuilder builder(feature);
  for (std::size_t i = 0; i < rows.size();) {
    const auto [chunk, first] = table.place_of(rows[i]);
    const std::size_t left = table.chunks()[chunk].rows - first;
    std::size_t count = 1;
    while (i + count < rows.size() && count < left && rows[i + count] == rows[i] + count) ++count;
    builder.append(table.chunks()[chunk].columns[column], first, count);
    i += count;
  }
  return builder.finish();
}

}  // namespace

std::filesystem::path datasets_cache_folder() {
  const auto expanded = [](const std::string& path) {
    return std::filesystem::path(detail::expand_variables(detail::expand_user(path)));
  };
  if (const auto folder = env("ACCELERATE_DATASETS_CACHE"); folder && !folder->empty())
    return expanded(*folder);
  if (const auto folder = env("HF_DATASETS_CACHE"); folder && !folder->empty())
    return expanded(*folder) / "accelerate";
  return hugging_face_home() / "datasets/accelerate";
}

Dataset Dataset::of_table(std::shared_ptr<const Table> table) {
  Dataset dataset;
  dataset.features_ = table->features();
  dataset.columns_.resize(dataset.features_.size());
  std::iota(dataset.columns_.begin(), dataset.columns_.end(), std::size_t{0});
  dataset.table_ = std::move(table);
  detail::check_features(dataset.features_);
  return dataset;
}

Dataset Dataset::from_columns(const RowBatch& columns) {
  detail::Chunk chunk;
  Features features;
  for (const auto& [name, feature, column] : columns.columns()) {
    if (column.size() != columns.size()) {
      throw UsageError("the column '" + name + "' has " + std::to_string(column.size()) +
                       " rows, and '" + columns.columns().front().name + "' has " +
                       std::to_string(columns.size()));
    }
    features.emplace_back(name, feature);
    chunk.columns.push_back(column);
  }
  chunk.rows = columns.size();
  std::vector<detail::Chunk> chunks;
  if (chunk.rows > 0) chunks.push_back(std::move(chunk));
  auto fingerprint = detail::fingerprint_of(features, chunks);
  return of_table(std::make_shared<const Table>(std::move(features), std::move(chunks),
                                                std::move(fingerprint)));
}

Dataset Dataset::from_rows(const std::vector<Row>& rows, std::optional<Features> features) {
  if (!features) features = features_of_rows(rows);
  detail::TableBuilder builder(std::move(*features), detail::sink_in_memory());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    try {
      builder.append(rows[i]);
    } catch (const DataError& error) {
      throw DataError("row " + std::to_string(i) + ": " + error.what());
    }
  }
  return of_table(builder.finish());
}

std::size_t Dataset::size() const {
  if (features_.empty()) return 0;
  if (rows_) return rows_->size();
  return table_ ? table_->rows() : 0;
}

std::vector<std::string> Dataset::column_names() const {
  return detail::names_of(features_);
}

bool Dataset::has_column(std::string_view name) const {
  return std::ranges::any_of(features_, [&](const auto& feature) { return feature.first == name; });
}

std::size_t Dataset::place_of_column(std::string_view name) const {
  const auto found =
      std::ranges::find_if(features_, [&](const auto& feature) { return feature.first == name; });
  if (found != features_.end()) return static_cast<std::size_t>(found - features_.begin());
  throw UsageError(detail::no_such("column", name, column_names()));
}

const Feature& Dataset::feature(std::string_view name) const {
  return features_[place_of_column(name)].second;
}

Row Dataset::operator[](std::size_t index) const {
  if (index >= size())
    throw UsageError("there is no row " + std::to_string(index) + "; the dataset has " +
                     std::to_string(size()));
  const auto [chunk, place] = table_->place_of(table_row(index));
  Row row;
  const auto show = [&](std::size_t i) {
    row.add(features_[i].first, table_->chunks()[chunk].columns[columns_[i]].at(place));
  };
  if (shown_.empty()) {
    for (std::size_t i = 0; i < features_.size(); ++i) show(i);
  } else {
    for (const std::size_t i : shown_) show(i);
  }
  return row;
}

std::vector<Value> Dataset::column(std::string_view name) const {
  const std::size_t column = columns_[place_of_column(name)];
  std::vector<Value> values;
  values.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) {
    const auto [chunk, place] = table_->place_of(table_row(i));
    values.push_back(table_->chunks()[chunk].columns[column].at(place));
  }
  return values;
}

RowBatch Dataset::batch(std::size_t begin, std::size_t end) const {
  if (begin > end || end > size()) {
    throw UsageError("there are no rows " + std::to_string(begin) + " to " + std::to_string(end) +
                     "; the dataset has " + std::to_string(size()));
  }
  std::vector<std::uint64_t> rows(end - begin);
  for (std::size_t i = begin; i < end; ++i) rows[i - begin] = table_row(i);
  RowBatch batch;
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const auto& [name, feature] = features_[i];
    batch.set_column(name, feature, gathered(*table_, columns_[i], feature, rows));
  }
  return batch;
}

// --- Rows ---

Dataset Dataset::with_rows(std::vector<std::uint64_t> rows) const {
  Dataset dataset = *this;
  dataset.rows_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(rows));
  return dataset;
}

Dataset Dataset::select(const std::vector<std::uint64_t>& rows) const {
  std::vector<std::uint64_t> chosen;
  chosen.reserve(rows.size());
  for (const std::uint64_t row : rows) {
    if (row >= size())
      throw UsageError("row " + std::to_string(row) + " was selected; the dataset has " +
                       std::to_string(size()));
    chosen.push_back(table_row(row));
  }
  return with_rows(std::move(chosen));
}

Dataset Dataset::slice(std::size_t begin, std::size_t end) const {
  if (begin > end || end > size()) {
    throw UsageError("there are no rows " + std::to_string(begin) + " to " + std::to_string(end) +
                     "; the dataset has " + std::to_string(size()));
  }
  std::vector<std::uint64_t> rows(end - begin);
  std::iota(rows.begin(), rows.end(), begin);
  return select(rows);
}

Dataset Dataset::shard(std::size_t num_shards, std::size_t index, bool contiguous) const {
  if (num_shards == 0 || index >= num_shards) {
    throw UsageError("there is no shard " + std::to_string(index) + " of " +
                     std::to_string(num_shards) +
                     "; the first shard is 0, the last one less than their number");
  }
  if (contiguous) {
    const std::size_t each = size() / num_shards, more = size() % num_shards;
    const std::size_t begin = each * index + std::min(index, more);
    return slice(begin, begin + each + (index < more ? 1 : 0));
  }
  std::vector<std::uint64_t> rows;
  for (std::size_t row = index; row < size(); row += num_shards) rows.push_back(row);
  return select(rows);
}

Dataset Dataset::sort(std::string_view column, const SortOptions& options) const {
  const Kind kind = feature(column).kind();
  if (kind == Kind::list)
    throw UsageError("the column '" + std::string(column) +
                     "' has lists; rows cannot be sorted by lists");
  const auto values = this->column(column);
  std::vector<std::uint64_t> rows(size());
  std::iota(rows.begin(), rows.end(), std::uint64_t{0});
  // As in Arrow: NaN stands between the numbers and missing values, in both orders.
  const auto distance_from_numbers = [](const Value& value) {
    if (value.is_missing()) return 2;
    return value.holds<double>() && std::isnan(value.number()) ? 1 : 0;
  };
  const auto is_less = [&](const Value& a, const Value& b) {
    if (kind == Kind::string) return a.text() < b.text();
    if (kind == Kind::boolean) return a.boolean() < b.boolean();
    return kind == Kind::integer ? a.integer() < b.integer() : a.number() < b.number();
  };
  std::ranges::stable_sort(rows, [&](std::uint64_t a, std::uint64_t b) {
    const Value &one = values[a], &other = values[b];
    const int far = distance_from_numbers(one), other_far = distance_from_numbers(other);
    if (far > 0 || other_far > 0) return options.nulls_at_end ? far < other_far : far > other_far;
    return options.reverse ? is_less(other, one) : is_less(one, other);
  });
  return select(rows);
}

// --- Columns ---

Dataset Dataset::rename_columns(
    const std::vector<std::pair<std::string, std::string>>& names) const {
  Dataset dataset = *this;
  for (const auto& [from, to] : names) {
    if (to.empty()) throw UsageError("the column '" + from + "' would have an empty name");
    dataset.features_[place_of_column(from)].first = to;
  }
  detail::check_features(dataset.features_);
  return dataset;
}

Dataset Dataset::rename_column(std::string_view from, std::string_view to) const {
  return rename_columns({{std::string(from), std::string(to)}});
}

Dataset Dataset::remove_columns(const std::vector<std::string>& names) const {
  std::vector<std::string> kept;
  for (const std::string& name : names) (void)place_of_column(name);
  for (const std::string& name : column_names()) {
    if (std::ranges::find(names, name) == names.end()) kept.push_back(name);
  }
  return select_columns(kept);
}

Dataset Dataset::select_columns(const std::vector<std::string>& names) const {
  Dataset dataset = *this;
  dataset.features_.clear();
  dataset.columns_.clear();
  for (const std::string& name : names) {
    const std::size_t place = place_of_column(name);
    dataset.features_.push_back(features_[place]);
    dataset.columns_.push_back(columns_[place]);
  }
  detail::check_features(dataset.features_);
  dataset.shown_.clear();
  return dataset;
}

void Dataset::set_format(const std::vector<std::string>& columns) & {
  std::vector<std::size_t> shown;
  for (const std::string& name : columns) shown.push_back(place_of_column(name));
  shown_ = std::move(shown);
}

Dataset Dataset::class_encode_column(std::string_view name) const {
  const Kind kind = feature(name).kind();
  if (kind == Kind::floating || kind == Kind::list || feature(name).is_class_label()) {
    throw UsageError(
        "the column '" + std::string(name) + "' has " + feature(name).description() +
        "; allowed are strings, integers and booleans" +
        (kind == Kind::floating ? ". Convert the floats to integers by map() first" : ""));
  }
  const auto word_of = [&](const Value& value) -> std::string {
    if (kind == Kind::string) return value.text();
    if (kind == Kind::boolean) return value.boolean() ? "True" : "False";
    return std::to_string(value.integer());
  };
  std::set<std::string> words;
  for (const Value& value : column(name)) {
    if (!value.is_missing()) words.insert(word_of(value));
  }
  if (words.empty()) {
    throw UsageError("the column '" + std::string(name) + "' has no values to make classes of");
  }
  const Feature label = Feature::class_label({words.begin(), words.end()});
  const std::size_t place = columns_[place_of_column(name)];
  // The other columns share memory with this dataset. Rows that this dataset leaves out may have
  // values without a class; these become missing.
  std::vector<detail::Chunk> chunks = table_->chunks();
  for (detail::Chunk& chunk : chunks) {
    detail::ColumnBuilder codes(label);
    for (std::size_t row = 0; row < chunk.rows; ++row) {
      const Value value = chunk.columns[place].at(row);
      const auto number = value.is_missing() ? std::nullopt : label.find_class(word_of(value));
      if (number) {
        codes.append(*number);
      } else {
        codes.append_missing();
      }
    }
    chunk.columns[place] = codes.finish();
  }
  Features features = table_->features();
  features[place].second = label;
  const std::string key = detail::fingerprint_of(
      {"classes", table_->fingerprint(), std::to_string(place), detail::write_features(features)});
  Dataset encoded = *this;
  encoded.table_ = std::make_shared<const Table>(std::move(features), std::move(chunks), key);
  encoded.features_[place_of_column(name)].second = label;
  return encoded;
}

std::string Dataset::fingerprint() const {
  if (!table_) return detail::fingerprint_of({});
  std::string columns;
  for (std::size_t i = 0; i < features_.size(); ++i) {
    columns += std::to_string(columns_[i]) + ":" + detail::write_features({features_[i]}) + "\n";
  }
  const std::string_view rows = rows_
                                    ? std::string_view(reinterpret_cast<const char*>(rows_->data()),
                                                       rows_->size() * sizeof(std::uint64_t))
                                    : "";
  return detail::fingerprint_of({table_->fingerprint(), columns, rows_ ? "rows" : "all", rows});
}

Dataset concatenate_datasets(const std::vector<Dataset>& datasets) {
  if (datasets.empty())
    throw UsageError("no datasets were given to concatenate; allowed are one or more");
  const Dataset& first = datasets.front();
  const auto names = first.column_names();
  std::vector<detail::Chunk> chunks;
  std::vector<std::uint64_t> rows;
  std::string fingerprints;
  std::size_t before = 0;
  for (const Dataset& unordered : datasets) {
    const bool is_alike = unordered.features().size() == names.size() &&
                          std::ranges::all_of(first.features(), [&](const auto& feature) {
                            return unordered.has_column(feature.first) &&
                                   unordered.feature(feature.first) == feature.second;
                          });
    if (!is_alike) {
      throw UsageError("datasets to concatenate have the columns " +
                       detail::described(first.features()) + " and " +
                       detail::described(unordered.features()) +
                       "; all need the same names and types");
    }
    const Dataset dataset = unordered.select_columns(names);
    if (!dataset.table_) continue;
    for (const detail::Chunk& chunk : dataset.table_->chunks()) {
      detail::Chunk taken{.rows = chunk.rows, .storage = chunk.storage};
      for (const std::size_t column : dataset.columns_)
        taken.columns.push_back(chunk.columns[column]);
      chunks.push_back(std::move(taken));
    }
    for (std::size_t i = 0; i < dataset.size(); ++i) rows.push_back(before + dataset.table_row(i));
    before += dataset.table_->rows();
    fingerprints += dataset.fingerprint();
  }
  auto table = std::make_shared<const Table>(
      first.features(), std::move(chunks), detail::fingerprint_of({"concatenated", fingerprints}));
  bool has_all = rows.size() == before;
  for (std::size_t i = 0; has_all && i < rows.size(); ++i) has_all = rows[i] == i;
  Dataset whole = Dataset::of_table(std::move(table));
  return has_all ? whole : whole.with_rows(std::move(rows));
}

}  // namespace accelerate
