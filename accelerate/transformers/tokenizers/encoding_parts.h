// Truncates, joins and pads encodings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "accelerate/transformers/tokenizers/encoding.h"

namespace accelerate::detail {

/// Makes room for `size` tokens.
void reserve(Encoding& encoding, std::size_t size);
/// Returns the tokens from `begin` up to `end`, without overflowing parts.
[[nodiscard]] Encoding slice(const Encoding& whole, std::size_t begin, std::size_t end);
/// Keeps at most `length` tokens; the rest become overflowing parts. Throws UsageError unless the
/// stride is shorter than `length`.
void truncate(Encoding& encoding, std::size_t length, const TruncationOptions& options);
/// Cuts one or two texts to options.max_length in total. Throws UsageError when the text that the
/// strategy cuts is missing or too short.
void truncate(std::vector<Encoding>& texts, const TruncationOptions& options);
/// Appends `other`. The overflowing parts of the result combine every part of one text with every
/// part of the other, the kept parts included.
void append(Encoding& encoding, Encoding other);
void pad(Encoding& encoding, std::size_t length, const PaddingOptions& options);

/// Throws UsageError if `length` is above 2^24: only a mistaken file or call asks for that.
void check_padded_length(std::size_t length);
/// Pads all encodings to one length. Throws UsageError if that length is above 2^24.
void pad(std::span<Encoding> batch, const PaddingOptions& options);

}  // namespace accelerate::detail
