#include "accelerate/transformers/trainer/metrics/tag_chunks.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

// In the order of TagScheme.
constexpr std::array<std::string_view, 6> kSchemeNames{"IOB1", "IOB2",  "IOE1",
                                                       "IOE2", "IOBES", "BILOU"};
constexpr std::array<std::string_view, 6> kSchemePrefixes{"IOB", "IOB",   "IOE",
                                                          "IOE", "IOBES", "BILOU"};

bool is_one_of(char prefix, std::string_view prefixes) {
  return prefixes.find(prefix) != std::string_view::npos;
}

// "B-PER" → PER, "B-A-B" → A-B, "BPER" → PER, "B" → "".
std::string_view lenient_type(std::string_view name, bool has_suffix) {
  if (has_suffix) {
    const std::string_view rest = name.substr(0, name.size() - 1);
    return rest.substr(0, rest.rfind('-'));
  }
  const std::string_view rest = name.substr(1);
  const std::size_t dash = rest.find('-');
  return dash == std::string_view::npos ? rest : rest.substr(dash + 1);
}

std::string_view strict_type(std::string_view name, bool has_suffix) {
  std::string_view type = has_suffix ? name.substr(0, name.size() - 1) : name.substr(1);
  type.remove_prefix(std::min(type.find_first_not_of('-'), type.size()));
  return type.substr(0, type.find_last_not_of('-') + 1);
}

// Whether a chunk ends with `last`, the first of two neighbours.
bool lenient_end(const Tag& last, const Tag& next) {
  if (is_one_of(last.prefix, "ES")) return true;
  if (is_one_of(last.prefix, "BI") && is_one_of(next.prefix, "BSO")) return true;
  return !is_one_of(last.prefix, "O.") && last.type != next.type;
}

// Whether a chunk begins with `next`, the second of two neighbours.
bool lenient_start(const Tag& last, const Tag& next) {
  if (is_one_of(next.prefix, "BS")) return true;
  if (is_one_of(last.prefix, "ESO") && is_one_of(next.prefix, "EI")) return true;
  return !is_one_of(next.prefix, "O.") && last.type != next.type;
}

bool strict_start(TagScheme scheme, const Tag& last, const Tag& next) {
  const bool is_same = last.type == next.type;
  switch (scheme) {
    case TagScheme::iob1:
      if (next.prefix == 'B') return is_one_of(last.prefix, "IB") && is_same;
      return next.prefix == 'I' && (last.prefix != 'I' || !is_same);
    case TagScheme::ioe1:
      if (next.prefix == 'E') return last.prefix == 'E' && is_same;
      return next.prefix == 'I' && (last.prefix != 'I' || !is_same);
    case TagScheme::ioe2:
      return is_one_of(next.prefix, "IE") && (last.prefix != 'I' || !is_same);
    case TagScheme::iob2:
      return next.prefix == 'B';
    default:
      return is_one_of(next.prefix, "BSU");
  }
}

// Whether `next` goes on with the chunk whose last word is `last`.
bool strict_inside(TagScheme scheme, const Tag& last, const Tag& next) {
  if (last.type != next.type) return false;
  switch (scheme) {
    case TagScheme::iob1:
    case TagScheme::iob2:
      return is_one_of(last.prefix, "BI") && next.prefix == 'I';
    case TagScheme::ioe1:
    case TagScheme::ioe2:
      return last.prefix == 'I' && is_one_of(next.prefix, "IE");
    default:
      return is_one_of(last.prefix, "BI") && is_one_of(next.prefix, "IEL");
  }
}

// Whether a chunk is well-formed that ends with `last`, because `next` does not go on with it. The
// gaps in the rules for IOB1 and IOE1 are the original's.
bool strict_end(TagScheme scheme, const Tag& last, const Tag& next) {
  const bool is_same = last.type == next.type;
  switch (scheme) {
    case TagScheme::iob1:
      return last.prefix != 'B' || next.prefix != 'B' || is_same;
    case TagScheme::iob2:
      return true;
    case TagScheme::ioe1:
      return last.prefix == 'I' || (is_one_of(next.prefix, "IE") && is_same);
    case TagScheme::ioe2:
      return last.prefix == 'E';
    default:
      return is_one_of(last.prefix, "ESLU");
  }
}

Tag tag_at(std::span<const Tag> tags, std::size_t i) {
  return i < tags.size() ? tags[i] : Tag{};
}

}  // namespace

TagScheme tag_scheme(const std::string& name) {
  const auto found = std::find(kSchemeNames.begin(), kSchemeNames.end(), name);
  if (found != kSchemeNames.end()) return static_cast<TagScheme>(found - kSchemeNames.begin());
  const std::vector<std::string> names(kSchemeNames.begin(), kSchemeNames.end());
  throw ConfigError("the scheme is '" + name + "'; allowed are " + join(names, ", ") + "." +
                    did_you_mean(name, names));
}

TagSet::TagSet(const std::vector<std::string>& names, TagReading reading) {
  for (const std::string& name : names) {
    if (name.empty())
      throw ConfigError("class " + std::to_string(tags_.size()) +
                        " has an empty name; it needs a tag as \"B-PER\" or \"O\"");
    const auto type = reading.is_strict ? strict_type(name, reading.has_suffix)
                                        : lenient_type(name, reading.has_suffix);
    const char prefix = reading.has_suffix ? name.back() : name.front();
    tags_.push_back({prefix, type_index(type.empty() ? "_" : std::string(type))});
    first_of_name_.push_back(std::find(names.begin(), names.end(), name) - names.begin());
  }
}

std::int64_t TagSet::type_index(const std::string& type) {
  const auto found = std::find(types_.begin(), types_.end(), type);
  const auto index = found - types_.begin();
  if (found == types_.end()) types_.push_back(type);
  return index;
}

std::vector<std::int64_t> TagSet::chunk_types() const {
  std::vector<std::int64_t> types;
  for (const Tag& tag : tags_) {
    if (!is_one_of(tag.prefix, "O.") &&
        std::find(types.begin(), types.end(), tag.type) == types.end())
      types.push_back(tag.type);
  }
  std::sort(types.begin(), types.end(), [&](std::int64_t a, std::int64_t b) {
    return types_[static_cast<std::size_t>(a)] < types_[static_cast<std::size_t>(b)];
  });
  return types;
}

void check_prefixes(const TagSet& tags, const std::vector<std::string>& names, TagScheme scheme) {
  const std::string_view allowed = kSchemePrefixes[static_cast<std::size_t>(scheme)];
  for (std::int64_t i = 0; i < tags.size(); ++i) {
    if (is_one_of(tags.of(i).prefix, allowed)) continue;
    throw ConfigError("the tag '" + names[static_cast<std::size_t>(i)] + "' has the prefix " +
                      tags.of(i).prefix + ", which " +
                      std::string(kSchemeNames[static_cast<std::size_t>(scheme)]) +
                      " does not have; allowed are " + std::string(allowed) +
                      "; take another scheme, or mode \"default\"");
  }
}

std::vector<TagChunk> lenient_chunks(std::span<const Tag> tags) {
  std::vector<TagChunk> chunks;
  // Before the first word stands O with no type at all, not even "_".
  Tag last{.prefix = 'O', .type = -1};
  std::int64_t begin = 0;
  for (std::size_t i = 0; i <= tags.size(); ++i) {
    const Tag next = tag_at(tags, i);
    const auto here = static_cast<std::int64_t>(i);
    if (lenient_end(last, next)) chunks.push_back({last.type, begin, here - 1});
    if (lenient_start(last, next)) begin = here;
    last = next;
  }
  return chunks;
}

std::vector<TagChunk> strict_chunks(std::span<const Tag> tags, TagScheme scheme) {
  std::vector<TagChunk> chunks;
  for (std::size_t i = 0; i < tags.size();) {
    const Tag before = i > 0 ? tags[i - 1] : Tag{};
    const std::size_t begin = i++;
    if (!strict_start(scheme, before, tags[begin])) continue;
    while (strict_inside(scheme, tags[i - 1], tag_at(tags, i))) ++i;
    if (strict_end(scheme, tags[i - 1], tag_at(tags, i)))
      chunks.push_back(
          {tags[begin].type, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(i) - 1});
  }
  return chunks;
}

}  // namespace accelerate::detail
