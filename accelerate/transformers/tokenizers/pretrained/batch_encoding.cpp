#include "accelerate/transformers/tokenizers/pretrained/batch_encoding.h"

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
  throw UsageError("there is no row " + std::to_string(row) + "; there are encodings of " +
                   std::to_string(encodings_.size()) + " rows");
}

const Encoding& BatchEncoding::encoding_with(std::size_t row, std::size_t token) const {
  const Encoding& all = encoding(row);
  if (token < all.size()) return all;
  throw UsageError("there is no token " + std::to_string(token) + "; row " + std::to_string(row) +
                   " has " + std::to_string(all.size()));
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
  const Encoding& all = encoding_with(row, token);
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

std::optional<std::int32_t> BatchEncoding::token_to_sequence(std::size_t row,
                                                             std::size_t token) const {
  const std::int32_t sequence = encoding_with(row, token).sequences[token];
  return sequence == kNone ? std::nullopt : std::optional(sequence);
}

std::optional<std::int32_t> BatchEncoding::token_to_word(std::size_t row, std::size_t token) const {
  const std::int32_t word = encoding_with(row, token).words[token];
  return word == kNone ? std::nullopt : std::optional(word);
}

std::optional<Offsets> BatchEncoding::word_to_chars(std::size_t row, std::int32_t word,
                                                    std::int32_t sequence) const {
  const auto tokens = word_to_tokens(row, word, sequence);
  if (!tokens) return std::nullopt;
  const auto& offsets = encoding(row).offsets;
  return Offsets{offsets[tokens->first].begin, offsets[tokens->second - 1].end};
}

std::optional<std::int32_t> BatchEncoding::char_to_word(std::size_t row, std::uint32_t character,
                                                        std::int32_t sequence) const {
  const auto token = char_to_token(row, character, sequence);
  return token ? token_to_word(row, *token) : std::nullopt;
}

namespace {

BatchEncoding::Row aligned(const Encoding& tokens, const BatchEncoding::Row& labels,
                           const LabelAlignment& alignment) {
  BatchEncoding::Row row(tokens.size(), alignment.ignored);
  std::int32_t before = kNone;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t word = tokens.sequences[i] == 0 ? tokens.words[i] : kNone;
    const bool is_first = word != before;
    before = word;
    if (word == kNone || !(is_first || alignment.all_tokens)) continue;
    if (static_cast<std::size_t>(word) >= labels.size())
      throw UsageError("the word " + std::to_string(word) + " has no label: its text has " +
                       std::to_string(labels.size()) +
                       " labels. One label a word is needed; give the texts as words with "
                       "is_split_into_words");
    row[i] = labels[static_cast<std::size_t>(word)];
  }
  return row;
}

}  // namespace

BatchEncoding::Column BatchEncoding::align_labels(const Column& labels,
                                                  const LabelAlignment& alignment) const {
  const std::size_t texts =
      samples_.empty() ? encodings_.size() : static_cast<std::size_t>(samples_.back()) + 1;
  if (labels.size() != texts)
    throw UsageError("there are labels of " + std::to_string(labels.size()) + " texts, and " +
                     std::to_string(texts) + " texts were encoded; each needs a row of labels");
  Column column;
  for (std::size_t row = 0; row < encodings_.size(); ++row) {
    const std::size_t text = samples_.empty() ? row : static_cast<std::size_t>(samples_[row]);
    column.push_back(aligned(encodings_[row], labels[text], alignment));
  }
  return column;
}

}  // namespace accelerate
