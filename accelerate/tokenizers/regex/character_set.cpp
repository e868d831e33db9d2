#include "accelerate/tokenizers/regex/character_set.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace accelerate::detail {
namespace {

// A run of code points that regular expressions cannot tell apart.
struct Alike {
  CodeRange range;
  std::uint32_t properties;
  Category category;
};

const std::vector<Alike>& all_alike() {
  static const std::vector<Alike> all = [] {
    constexpr std::uint32_t kOfRegex = kRegexSpace | kRegexWord | kRegexDigit;
    std::vector<Alike> found;
    for (char32_t c = 0; c < unicode::kLimit; ++c) {
      const auto& record = record_of(c);
      const std::uint32_t properties = record.properties & kOfRegex;
      if (found.empty() || found.back().properties != properties ||
          found.back().category != record.category) {
        found.push_back({{c, c}, properties, record.category});
      }
      found.back().range.last = c;
    }
    return found;
  }();
  return all;
}

template <typename Predicate>
CharacterSet set_where(Predicate holds) {
  CharacterSet set;
  for (const Alike& alike : all_alike()) {
    if (holds(alike)) set.add({alike.range.first, alike.range.last});
  }
  return set;
}

// The two letters and the name of each category, in the order of the enumeration.
constexpr std::array<std::pair<std::string_view, std::string_view>, 30> kCategories{{
    {"lu", "uppercaseletter"},    {"ll", "lowercaseletter"},  {"lt", "titlecaseletter"},
    {"lm", "modifierletter"},     {"lo", "otherletter"},      {"mn", "nonspacingmark"},
    {"mc", "spacingmark"},        {"me", "enclosingmark"},    {"nd", "decimalnumber"},
    {"nl", "letternumber"},       {"no", "othernumber"},      {"pc", "connectorpunctuation"},
    {"pd", "dashpunctuation"},    {"ps", "openpunctuation"},  {"pe", "closepunctuation"},
    {"pi", "initialpunctuation"}, {"pf", "finalpunctuation"}, {"po", "otherpunctuation"},
    {"sm", "mathsymbol"},         {"sc", "currencysymbol"},   {"sk", "modifiersymbol"},
    {"so", "othersymbol"},        {"zs", "spaceseparator"},   {"zl", "lineseparator"},
    {"zp", "paragraphseparator"}, {"cc", "control"},          {"cf", "format"},
    {"cs", "surrogate"},          {"co", "privateuse"},       {"cn", "unassigned"},
}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kGroups{{
    {"l", "letter"},
    {"m", "mark"},
    {"n", "number"},
    {"p", "punctuation"},
    {"s", "symbol"},
    {"z", "separator"},
    {"c", "other"},
}};

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_')
      out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return out;
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

CharacterSet set_of(Property property) {
  return set_where([&](const Alike& alike) { return (alike.properties & property) != 0; });
}

CharacterSet set_of_category(std::string_view name) {
  const std::string wanted = folded(name);
  const auto is_wanted = [&](const auto& names) {
    return names.first == wanted || names.second == wanted;
  };
  if (wanted == "any") return CharacterSet::all();
  if (wanted == "ascii") return {0, 0x7F};
  if (wanted == "assigned") return set_of_category("cn").inverted();
  const auto group = std::ranges::find_if(kGroups, is_wanted);
  const char letter = group == kGroups.end() ? '\0' : group->first[0];
  return set_where([&](const Alike& alike) {
    const auto& category = kCategories[static_cast<std::size_t>(alike.category)];
    return category.first[0] == letter || is_wanted(category);
  });
}

}  // namespace accelerate::detail
