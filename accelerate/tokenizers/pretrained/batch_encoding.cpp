#include "accelerate/tokenizers/pretrained/batch_encoding.h"

#include <algorithm>

#include "accelerate/base/error.h"

namespace accelerate {

BatchEncoding::BatchEncoding(std::vector<std::pair<std::string, Column>> columns,
                             std::vector<Encoding> encodings)
    : encodings_(std::move(encodings)) {
  for (auto& [name, column] : columns) set(name, std::move(column));
}

const BatchEncoding::Column& BatchEncoding::operator[](std::string_view name) const {
  const auto found = std::ranges::find(
      columns_, name, [](const auto& column) -> std::string_view { return column.first; });
  if (found != columns_.end()) return found->second;
  std::string known;
  for (const auto& [key, column] : columns_) known += (known.empty() ? "" : ", ") + key;
  throw UsageError("there is no column '" + std::string(name) + "' in this BatchEncoding; it has " +
                   (known.empty() ? "none" : known));
}

bool BatchEncoding::contains(std::string_view name) const {
  return std::ranges::any_of(columns_, [&](const auto& column) { return column.first == name; });
}

std::vector<std::string> BatchEncoding::keys() const {
  std::vector<std::string> names;
  for (const auto& [name, column] : columns_) names.push_back(name);
  return names;
}

void BatchEncoding::set(std::string_view name, Column column) {
  if (!columns_.empty() && column.size() != size()) {
    throw UsageError("the column '" + std::string(name) + "' has " + std::to_string(column.size()) +
                     " rows and '" + columns_.front().first + "' has " + std::to_string(size()) +
                     "; all need as many");
  }
  const auto found = std::ranges::find(
      columns_, name, [](const auto& one) -> std::string_view { return one.first; });
  if (found != columns_.end()) {
    found->second = std::move(column);
  } else {
    columns_.emplace_back(std::string(name), std::move(column));
  }
}

const Encoding& BatchEncoding::encoding(std::size_t row) const {
  if (row < encodings_.size()) return encodings_[row];
  throw UsageError("row " + std::to_string(row) + " was asked for; there are encodings of " +
                   std::to_string(encodings_.size()) + " rows");
}

const std::vector<std::string>& BatchEncoding::tokens(std::size_t row) const {
  return encoding(row).tokens;
}
const std::vector<std::int32_t>& BatchEncoding::word_ids(std::size_t row) const {
  return encoding(row).words;
}
const std::vector<std::int32_t>& BatchEncoding::sequence_ids(std::size_t row) const {
  return encoding(row).sequences;
}

std::optional<std::size_t> BatchEncoding::char_to_token(std::size_t row, std::uint32_t character,
                                                        std::int32_t sequence) const {
  const Encoding& all = encoding(row);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [begin, end] = all.offsets[i];
    if (all.sequences[i] == sequence && begin <= character && character < end) return i;
  }
  return std::nullopt;
}

std::optional<Offsets> BatchEncoding::token_to_chars(std::size_t row, std::size_t token) const {
  const Encoding& all = encoding(row);
  if (token >= all.size()) {
    throw UsageError("token " + std::to_string(token) + " was asked for; row " +
                     std::to_string(row) + " has " + std::to_string(all.size()));
  }
  if (all.sequences[token] == kNone) return std::nullopt;
  return all.offsets[token];
}

std::optional<std::pair<std::size_t, std::size_t>> BatchEncoding::word_to_tokens(
    std::size_t row, std::int32_t word, std::int32_t sequence) const {
  const Encoding& all = encoding(row);
  std::optional<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all.words[i] != word || all.sequences[i] != sequence) continue;
    if (!found) found.emplace(i, i);
    found->second = i + 1;
  }
  return found;
}

}  // namespace accelerate
