#include "accelerate/transformers/tokenizers/added_vocabulary.h"

#include <algorithm>

#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

bool ends_with_word(std::string_view text) {
  std::size_t end = text.size();
  return has(previous_code_point(text, end), kWordOfWhitespace);
}

bool begins_with_word(std::string_view text) {
  std::size_t at = 0;
  return has(next_code_point(text, at), kWordOfWhitespace);
}

std::uint32_t begin_of_space(std::string_view text, std::uint32_t end) {
  for (std::size_t next = end; end > 0; end = static_cast<std::uint32_t>(next)) {
    if (!has(previous_code_point(text, next), kSpaceOfWhitespace)) break;
  }
  return end;
}

std::uint32_t end_of_space(std::string_view text, std::uint32_t begin) {
  for (std::size_t next = begin; begin < text.size(); begin = static_cast<std::uint32_t>(next)) {
    if (!has(next_code_point(text, next), kSpaceOfWhitespace)) break;
  }
  return begin;
}

}  // namespace

void AddedVocabulary::add(const AddedToken& token, std::uint32_t id) {
  if (token.content.empty()) return;
  by_id_[id] = token;
  ids_[token.content] = id;
  if (token.special) special_.insert(token.content);
}

void AddedVocabulary::prepare(const Normalizer* normalizer) {
  raw_ = normalized_ = TokenFinder();
  // Of tokens whose normalized texts are equal, the first special one is found, else the first, as
  // in the original.
  for (const bool special : {true, false}) {
    for (const auto& [id, token] : by_id_) {
      if (is_special(token.content) != special) continue;
      AlignedText text(token.content, 0);
      if (token.normalized && normalizer != nullptr) normalizer->apply(text);
      texts_[id] = std::string(text.view());
      if (!text.view().empty()) (token.normalized ? normalized_ : raw_).add(text.view(), id);
    }
  }
  raw_.prepare();
  normalized_.prepare();
}

std::vector<Found> AddedVocabulary::cut(std::string_view text, const TokenSearch& search) const {
  std::vector<Found> tokens, parts;
  (search.is_normalized ? normalized_ : raw_).find_all(text, tokens);
  std::uint32_t done = 0;
  for (Found& found : tokens) {
    if (!search.keeps_special && is_special(by_id_.at(found.id).content)) continue;
    if (!extend(text, found.id, done, found.range)) continue;
    if (done < found.range.begin) parts.push_back({{done, found.range.begin}, kNoId});
    parts.push_back(found);
    done = found.range.end;
  }
  const auto size = static_cast<std::uint32_t>(text.size());
  if (done < size) parts.push_back({{done, size}, kNoId});
  return parts;
}

// Adds the white space that the token includes to `range`. False if the token is a single_word that
// touches a word here, or if the token before it took all of its text as white space.
bool AddedVocabulary::extend(std::string_view text, std::uint32_t id, std::uint32_t done,
                             Span& range) const {
  const AddedToken& token = by_id_.at(id);
  if (token.single_word) {
    const bool is_free_before = range.begin == 0 || !ends_with_word(text.substr(0, range.begin));
    const bool is_free_behind =
        range.end == text.size() || !begins_with_word(text.substr(range.end));
    if (!is_free_before || !is_free_behind) return false;
  }
  if (token.lstrip) range.begin = std::max(begin_of_space(text, range.begin), done);
  if (token.rstrip) range.end = end_of_space(text, range.end);
  return range.begin < range.end;
}

std::uint32_t AddedVocabulary::find(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? kNoId : found->second;
}

const std::string* AddedVocabulary::text_of(std::uint32_t id) const {
  const auto found = texts_.find(id);
  return found == texts_.end() ? nullptr : &found->second;
}

}  // namespace accelerate::detail
