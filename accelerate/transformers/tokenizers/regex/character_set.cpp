#include "accelerate/transformers/tokenizers/regex/character_set.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>
#include <utility>

#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_')
      out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return out;
}

std::optional<CharacterSet> look_up(std::string_view name) {
  using namespace unicode;
  const NamedSet* const end = named_sets + named_set_count;
  const NamedSet* const found =
      std::partition_point(named_sets, end, [&](const auto& each) { return each.name < name; });
  if (found == end || found->name != name) return std::nullopt;
  std::vector<CodeRange> ranges;
  char32_t next = 0;
  for (std::size_t at = set_begins[found->set]; at < set_begins[found->set + 1]; at += 2) {
    const char32_t first = next + set_steps[at];
    next = first + set_steps[at + 1];
    ranges.push_back({first, next - 1});
  }
  return CharacterSet(std::move(ranges));
}

}  // namespace

CharacterSet& CharacterSet::add(const CharacterSet& other) {
  // Ranges that are added at the end, as while a set is built, need no sorting.
  const bool sorts = !ranges_.empty() && !other.ranges_.empty() &&
                     other.ranges_.front().first <= ranges_.back().last;
  const auto before = static_cast<std::ptrdiff_t>(ranges_.size());
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  if (sorts) std::ranges::inplace_merge(ranges_, ranges_.begin() + before, {}, &CodeRange::first);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < ranges_.size(); ++i) {
    if (ranges_[i].first <= ranges_[kept].last + 1) {
      ranges_[kept].last = std::max(ranges_[kept].last, ranges_[i].last);
    } else {
      ranges_[++kept] = ranges_[i];
    }
  }
  if (!ranges_.empty()) ranges_.resize(kept + 1);
  return *this;
}

CharacterSet CharacterSet::inverted() const {
  CharacterSet out;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) out.ranges_.push_back({next, first - 1});
    next = last + 1;
  }
  if (next < unicode::kLimit) out.ranges_.push_back({next, unicode::kLimit - 1});
  return out;
}

CharacterSet CharacterSet::common_with(const CharacterSet& other) const {
  return inverted().add(other.inverted()).inverted();
}

std::optional<CharacterSet> named_set(std::string_view name) {
  // A backslash begins the names of hidden sets.
  if (name.find('\\') != std::string_view::npos) return std::nullopt;
  return look_up(folded(name));
}

CharacterSet hidden_set(HiddenSet set) {
  constexpr std::array<std::string_view, 9> kNames{"\\w",       "\\extend",  "\\spacing",
                                                   "\\prepend", "\\control", "\\pictograph",
                                                   "\\lead",    "\\vowel",   "\\trail"};
  return look_up(kNames[static_cast<std::size_t>(set)]).value();
}

}  // namespace accelerate::detail
