#include "accelerate/transformers/tokenizers/text/aligned_text.h"

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

std::uint32_t narrow(std::size_t value) {
  return static_cast<std::uint32_t>(value);
}

}  // namespace

Span AlignedText::origin(std::size_t begin, std::size_t end) const {
  if (!stands()) {
    if (begin >= end || end > origins_.size()) return {narrow(begin), narrow(end)};
    return {origins_[begin].begin, origins_[end - 1].end};
  }
  if (end > view_.size()) return {narrow(begin), narrow(end)};
  while (begin > 0 && begin < view_.size() && !begins_character(view_[begin])) --begin;
  while (end < view_.size() && !begins_character(view_[end])) ++end;
  return {first_byte_ + narrow(begin), first_byte_ + narrow(end)};
}

void AlignedText::append_origins(std::vector<Span>& to) const {
  if (!stands()) {
    to.insert(to.end(), origins_.begin(), origins_.end());
    return;
  }
  const std::size_t size = to.size();
  to.resize(size + view_.size());
  Span* place = to.data() + size;
  for (std::size_t at = 0; at < view_.size();) {
    const std::size_t width = width_of(view_[at]);
    const std::uint32_t begin = first_byte_ + narrow(at);
    const Span origin{begin, begin + narrow(width)};
    *place++ = origin;
    for (std::size_t i = 1; i < width; ++i) *place++ = origin;
    at += width;
  }
}

std::vector<Span> AlignedText::origins() const {
  std::vector<Span> origins;
  append_origins(origins);
  return origins;
}

std::vector<Span> AlignedText::take_origins() {
  return stands() ? origins() : std::exchange(origins_, {});
}

void AlignedText::check_size(std::size_t bytes) const {
  constexpr std::size_t kAlways = std::size_t{1} << 20, kTimes = 64;
  if (bytes <= kAlways + kTimes * original_bytes_) return;
  throw DataError("a text of " + std::to_string(original_bytes_) +
                  " bytes becomes one of more than " + std::to_string(bytes) +
                  " in the normalizer or pre-tokenizer; allowed are 1 MiB and 64 times as many");
}

void AlignedText::assign(std::string text, std::vector<Span> origins) {
  check_size(text.size());
  text_ = std::move(text);
  view_ = text_;
  origins_ = std::move(origins);
}

void AlignedText::transform(const std::vector<Change>& changes, std::size_t removed_first) {
  const std::vector<Span> before = take_origins();
  std::string text;
  std::vector<Span> origins;
  text.reserve(view_.size());
  origins.reserve(view_.size());
  std::size_t at = 0;
  const auto skip = [&](std::size_t characters) {
    for (; characters > 0 && at < view_.size(); --characters) at += width_of(view_[at]);
  };
  skip(removed_first);
  for (const auto [c, change] : changes) {
    const std::size_t place = change > 0 ? at - 1 : at;
    const Span origin = place < before.size() ? before[place] : Span{first_byte_, first_byte_};
    if (change <= 0) skip(1 + static_cast<std::size_t>(-change));
    append_utf8(text, c);
    origins.insert(origins.end(), width_of(c), origin);
  }
  assign(std::move(text), std::move(origins));
}

void AlignedText::filter(const std::function<bool(char32_t)>& keep) {
  std::vector<Change> kept;
  std::size_t removed_first = 0;
  bool removes = false;
  for (std::size_t at = 0; at < view_.size();) {
    const char32_t c = next_code_point(view_, at);
    if (keep(c)) {
      kept.push_back({c, 0});
      continue;
    }
    removes = true;
    if (kept.empty()) {
      ++removed_first;
    } else {
      --kept.back().change;
    }
  }
  if (removes) transform(kept, removed_first);
}

void AlignedText::map(const std::function<char32_t(char32_t)>& to) {
  std::vector<Change> changes;
  bool differs = false;
  for (std::size_t at = 0; at < view_.size();) {
    const char32_t c = next_code_point(view_, at);
    changes.push_back({to(c), 0});
    differs = differs || changes.back().c != c;
  }
  if (differs) transform(changes);
}

void AlignedText::replace(const std::vector<Span>& matches, std::string_view content) {
  if (matches.empty()) return;
  std::size_t size = view_.size() + matches.size() * content.size();
  for (const Span& match : matches) size -= match.size();
  check_size(size);
  const std::vector<Span> before = take_origins();
  std::string text(size, '\0');
  std::vector<Span> origins(size);
  std::size_t done = 0, at = 0;
  // Most parts between matches are short: a loop is quicker than two calls.
  const auto keep_until = [&](std::size_t end) {
    for (; done < end; ++done, ++at) {
      text[at] = view_[done];
      origins[at] = before[done];
    }
  };
  for (const Span& match : matches) {
    keep_until(match.begin);
    const Span origin = match.end > 0 ? before[match.end - 1] : Span{first_byte_, first_byte_};
    for (const char byte : content) {
      text[at] = byte;
      origins[at++] = origin;
    }
    done = match.end;
  }
  keep_until(view_.size());
  assign(std::move(text), std::move(origins));
}

void AlignedText::prepend(std::string_view content) {
  if (view_.empty() || content.empty()) return;
  std::vector<Span> origins;
  origins.reserve(content.size() + view_.size());
  origins.assign(content.size(), stands() ? origin(0, 1) : origins_.front());
  append_origins(origins);
  assign(std::string(content).append(view_), std::move(origins));
}

void AlignedText::append(std::string_view content) {
  if (view_.empty() || content.empty()) return;
  std::vector<Span> origins = take_origins();
  origins.insert(origins.end(), content.size(), Span(origins.back()));
  assign(std::string(view_).append(content), std::move(origins));
}

void AlignedText::strip(bool left, bool right) {
  std::size_t begin = 0, end = view_.size();
  for (std::size_t next = begin; left && begin < end; begin = next) {
    if (!has(next_code_point(view_, next), kWhiteSpace)) break;
  }
  for (std::size_t next = end; right && end > begin; end = next) {
    if (!has(previous_code_point(view_, next), kWhiteSpace)) break;
  }
  if (begin == 0 && end == view_.size()) return;
  const std::vector<Span> before = take_origins();
  assign(std::string(view_.substr(begin, end - begin)),
         {before.begin() + static_cast<std::ptrdiff_t>(begin),
          before.begin() + static_cast<std::ptrdiff_t>(end)});
}

}  // namespace accelerate::detail
