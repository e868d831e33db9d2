#include "accelerate/transformers/datasets/storage/table_builder.h"

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/datasets/names.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kChunkRows = 65'536;
constexpr std::size_t kChunkBytes = 16 << 20;
/// Asks the builders for their size once in so many rows.
constexpr std::size_t kRowsBetweenLooks = 256;

class MemorySink : public ChunkSink {
 public:
  void add(const Features&, Chunk chunk) override { chunks_.push_back(std::move(chunk)); }
  std::shared_ptr<const Table> finish(const Features& features) override {
    auto fingerprint = fingerprint_of(features, chunks_);
    return std::make_shared<const Table>(features, std::move(chunks_), std::move(fingerprint));
  }

 private:
  std::vector<Chunk> chunks_;
};

}  // namespace

std::unique_ptr<ChunkSink> sink_in_memory() {
  return std::make_unique<MemorySink>();
}

TableBuilder::TableBuilder(Features features, std::unique_ptr<ChunkSink> sink)
    : features_(std::move(features)), sink_(std::move(sink)) {
  check_features(features_);
  for (const auto& [name, feature] : features_) builders_.emplace_back(feature);
}

void TableBuilder::end_row() {
  ++rows_;
  const std::size_t gathered = builders_.empty() ? 0 : builders_.front().size();
  if (gathered >= kChunkRows) return flush();
  if (gathered % kRowsBetweenLooks != 0) return;
  std::size_t bytes = 0;
  for (const ColumnBuilder& builder : builders_) bytes += builder.bytes();
  if (bytes >= kChunkBytes) flush();
}

void TableBuilder::append(const Row& row) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const auto& [name, feature] = features_[i];
    const Value* value = row.find(name, i);
    if (value == nullptr)
      throw DataError("a row has no '" + name + "'; the columns are " +
                      join(names_of(features_), ", "));
    ++found;
    try {
      builders_[i].append(*value);
    } catch (const DataError& error) {
      throw DataError("column '" + name + "': " + error.what());
    }
  }
  for (const auto& [name, value] : row) {
    if (found == row.size()) break;
    const auto is_it = [&](const auto& feature) { return feature.first == name; };
    if (std::none_of(features_.begin(), features_.end(), is_it)) {
      throw DataError("a row has '" + name +
                      "', which is none of the columns: " + join(names_of(features_), ", "));
    }
  }
  end_row();
}

void TableBuilder::append(const std::vector<ColumnChunk>& columns, std::size_t first,
                          std::size_t count) {
  for (std::size_t i = 0; i < builders_.size(); ++i) builders_[i].append(columns[i], first, count);
  rows_ += count;
  std::size_t bytes = 0;
  for (const ColumnBuilder& builder : builders_) bytes += builder.bytes();
  const std::size_t gathered = builders_.empty() ? 0 : builders_.front().size();
  if (gathered >= kChunkRows || bytes >= kChunkBytes) flush();
}

void TableBuilder::flush() {
  Chunk chunk;
  if (builders_.empty() || builders_.front().size() == 0) return;
  for (ColumnBuilder& builder : builders_) chunk.columns.push_back(builder.finish());
  chunk.rows = chunk.columns.front().size();
  sink_->add(features_, std::move(chunk));
}

std::shared_ptr<const Table> TableBuilder::finish() {
  flush();
  return sink_->finish(features_);
}

}  // namespace accelerate::detail
