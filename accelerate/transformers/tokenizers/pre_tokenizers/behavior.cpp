#include "accelerate/transformers/tokenizers/pre_tokenizers/behavior.h"

#include <algorithm>
#include <string>

namespace accelerate::detail {
namespace {

void merge_with_previous(const std::vector<CutPart>& parts, std::vector<Span>& merged) {
  bool was_delimiter = false;
  for (const auto& [range, is_delimiter] : parts) {
    if (is_delimiter && !was_delimiter && !merged.empty()) {
      merged.back().end = range.end;
    } else {
      merged.push_back(range);
    }
    was_delimiter = is_delimiter;
  }
}

void merge_with_next(const std::vector<CutPart>& parts, std::vector<Span>& merged) {
  bool was_delimiter = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->is_delimiter && !was_delimiter && !merged.empty()) {
      merged.back().begin = part->range.begin;
    } else {
      merged.push_back(part->range);
    }
    was_delimiter = part->is_delimiter;
  }
  std::reverse(merged.begin(), merged.end());
}

void merge_alike(const std::vector<CutPart>& parts, std::vector<Span>& merged) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && parts[i].is_delimiter == parts[i - 1].is_delimiter) {
      merged.back().end = parts[i].range.end;
    } else {
      merged.push_back(parts[i].range);
    }
  }
}

}  // namespace

Behavior read_behavior(const JsonView& json) {
  const std::string_view name = json.text();
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  json.refuse("is '" + std::string(name) +
              "'; allowed are Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

void append_pieces(const std::vector<CutPart>& parts, Behavior behavior,
                   std::vector<Span>& pieces) {
  std::vector<Span> merged;
  switch (behavior) {
    case Behavior::removed:
      for (const CutPart& part : parts) {
        if (!part.is_delimiter) merged.push_back(part.range);
      }
      break;
    case Behavior::isolated:
      for (const CutPart& part : parts) merged.push_back(part.range);
      break;
    case Behavior::merged_with_previous:
      merge_with_previous(parts, merged);
      break;
    case Behavior::merged_with_next:
      merge_with_next(parts, merged);
      break;
    case Behavior::contiguous:
      merge_alike(parts, merged);
      break;
  }
  std::copy_if(merged.begin(), merged.end(), std::back_inserter(pieces),
               [](const Span& range) { return range.size() > 0; });
}

void append_isolated(const Span& range, const std::vector<Match>& matches,
                     std::vector<Span>& pieces) {
  std::uint32_t at = range.begin;
  const auto add = [&](std::uint32_t end) {
    if (end > at) pieces.push_back({at, end});
    at = end;
  };
  for (const Match& match : matches) {
    add(range.begin + static_cast<std::uint32_t>(match.begin));
    add(range.begin + static_cast<std::uint32_t>(match.end));
  }
  add(range.end);
}

}  // namespace accelerate::detail
