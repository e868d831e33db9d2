#include "accelerate/transformers/tokenizers/encoding_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

// Calls visit(a.ids, b.ids) and so on, for each vector that has one entry per token.
template <typename A, typename B, typename Visit>
void each_vector(A& a, B& b, const Visit& visit) {
  visit(a.ids, b.ids);
  visit(a.type_ids, b.type_ids);
  visit(a.tokens, b.tokens);
  visit(a.offsets, b.offsets);
  visit(a.words, b.words);
  visit(a.sequences, b.sequences);
  visit(a.special_tokens_mask, b.special_tokens_mask);
  visit(a.attention_mask, b.attention_mask);
}

// Returns the ranges that truncation makes of `size` tokens: first the kept one, then overflow.
std::vector<std::pair<std::size_t, std::size_t>> parts_of(std::size_t size, std::size_t length,
                                                          const TruncationOptions& options) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  const std::size_t step = length - options.stride;
  if (options.side == Side::right) {
    for (std::size_t begin = 0; begin < size; begin += step) {
      parts.emplace_back(begin, std::min(begin + length, size));
      if (parts.back().second == size) break;
    }
    return parts;
  }
  for (std::size_t end = size; end > 0; end -= std::min(step, end)) {
    parts.emplace_back(end < length ? 0 : end - length, end);
    if (parts.back().first == 0) break;
  }
  return parts;
}

void append_tokens(Encoding& encoding, const Encoding& other) {
  each_vector(encoding, other,
              [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); });
}

// Returns how many tokens of two texts stay. Only the longer text is cut until both are equal.
std::pair<std::size_t, std::size_t> longest_first(std::size_t first, std::size_t second,
                                                  std::size_t length) {
  const bool swaps = first > second;
  if (swaps) std::swap(first, second);
  second = first > length ? first : std::max(first, length - first);
  if (first + second > length) {
    first = length / 2;
    second = first + length % 2;
  }
  if (swaps) std::swap(first, second);
  return {first, second};
}

void cut_one(Encoding& encoding, std::size_t excess, const TruncationOptions& options) {
  if (encoding.size() <= excess) {
    throw UsageError(
        "truncation is to remove " + std::to_string(excess) + " tokens from a text that has " +
        std::to_string(encoding.size()) +
        ". Raise max_length, or let truncation be 'longest_first', which cuts both texts");
  }
  detail::truncate(encoding, encoding.size() - excess, options);
}

}  // namespace

void reserve(Encoding& encoding, std::size_t size) {
  each_vector(encoding, encoding, [&](auto& vector, auto&) { vector.reserve(size); });
}

Encoding slice(const Encoding& whole, std::size_t begin, std::size_t end) {
  Encoding part;
  each_vector(part, whole, [&](auto& to, const auto& from) {
    to.assign(from.begin() + static_cast<std::ptrdiff_t>(begin),
              from.begin() + static_cast<std::ptrdiff_t>(end));
  });
  return part;
}

void truncate(Encoding& encoding, std::size_t length, const TruncationOptions& options) {
  if (length >= encoding.size()) return;
  if (length == 0) {
    Encoding empty;
    empty.overflowing.push_back(std::move(encoding));
    encoding = std::move(empty);
    return;
  }
  if (options.stride >= length) {
    throw UsageError("the stride of truncation is " + std::to_string(options.stride) +
                     "; allowed is less than the " + std::to_string(length) +
                     " tokens that are left of max_length without special tokens");
  }
  const auto parts = parts_of(encoding.size(), length, options);
  Encoding kept = slice(encoding, parts[0].first, parts[0].second);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    kept.overflowing.push_back(slice(encoding, parts[i].first, parts[i].second));
  }
  encoding = std::move(kept);
}

void truncate(std::vector<Encoding>& texts, const TruncationOptions& options) {
  std::size_t total = 0;
  for (const Encoding& text : texts) total += text.size();
  if (options.max_length == 0) {
    for (Encoding& text : texts) truncate(text, 0, options);
    return;
  }
  if (total <= options.max_length) return;
  const std::size_t excess = total - options.max_length;
  if (options.strategy == TruncationStrategy::only_first) return cut_one(texts[0], excess, options);
  if (options.strategy == TruncationStrategy::only_second) {
    if (texts.size() < 2) {
      throw UsageError("truncation is to cut the second text only, and there is none");
    }
    return cut_one(texts[1], excess, options);
  }
  if (texts.size() < 2) return truncate(texts[0], options.max_length, options);
  const auto [first, second] = longest_first(texts[0].size(), texts[1].size(), options.max_length);
  truncate(texts[0], first, options);
  truncate(texts[1], second, options);
}

void append(Encoding& encoding, Encoding other) {
  std::vector<Encoding> overflowing;
  const auto combine = [&](const Encoding& ours, const Encoding& theirs) {
    Encoding both = slice(ours, 0, ours.size());
    append_tokens(both, theirs);
    overflowing.push_back(std::move(both));
  };
  for (const Encoding& ours : encoding.overflowing) {
    combine(ours, other);
    for (const Encoding& theirs : other.overflowing) combine(ours, theirs);
  }
  for (const Encoding& theirs : other.overflowing) combine(encoding, theirs);
  each_vector(encoding, other, [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  });
  encoding.overflowing = std::move(overflowing);
}

void pad(Encoding& encoding, std::size_t length, const PaddingOptions& options) {
  for (Encoding& part : encoding.overflowing) pad(part, length, options);
  if (encoding.size() >= length) return;
  const std::size_t count = length - encoding.size();
  Encoding padding{.ids = std::vector<std::uint32_t>(count, options.id),
                   .type_ids = std::vector<std::uint32_t>(count, options.type_id),
                   .tokens = std::vector<std::string>(count, options.token),
                   .offsets = std::vector<Offsets>(count),
                   .words = std::vector<std::int32_t>(count, kNone),
                   .sequences = std::vector<std::int32_t>(count, kNone),
                   .special_tokens_mask = std::vector<std::uint8_t>(count, 1),
                   .attention_mask = std::vector<std::uint8_t>(count, 0),
                   .overflowing = {}};
  if (options.side == Side::right) return append_tokens(encoding, padding);
  append_tokens(padding, encoding);
  padding.overflowing = std::move(encoding.overflowing);
  encoding = std::move(padding);
}

void check_padded_length(std::size_t length) {
  constexpr std::size_t kMost = std::size_t{1} << 24;
  if (length <= kMost) return;
  throw UsageError("the call asks for padding to " + std::to_string(length) +
                   " tokens, or to a multiple of as many; allowed are " + std::to_string(kMost));
}

void pad(std::span<Encoding> batch, const PaddingOptions& options) {
  check_padded_length(options.length);
  check_padded_length(options.multiple_of);
  std::size_t length = options.length;
  if (length == 0) {
    for (const Encoding& one : batch) length = std::max(length, one.size());
  }
  if (options.multiple_of > 0 && length % options.multiple_of > 0) {
    length += options.multiple_of - length % options.multiple_of;
  }
  for (Encoding& one : batch) detail::pad(one, length, options);
}

}  // namespace accelerate::detail
