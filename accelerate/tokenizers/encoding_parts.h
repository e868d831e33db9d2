// Cutting, joining and filling up encodings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "accelerate/tokenizers/encoding.h"
#include "accelerate/tokenizers/encoding_options.h"

namespace accelerate::detail {

/// Makes room for `size` tokens.
void reserve(Encoding& encoding, std::size_t size);
/// The tokens from `begin` up to `end`, without what overflowed.
[[nodiscard]] Encoding slice(const Encoding& whole, std::size_t begin, std::size_t end);
/// At most `length` tokens; the others become overflowing parts. Throws UsageError unless the
/// stride is shorter than `length`.
void truncate(Encoding& encoding, std::size_t length, const TruncationOptions& options);
/// Cuts one or two texts to options.max_length together. Throws UsageError when the text that may
/// be cut is too short for it.
void truncate(std::vector<Encoding>& texts, const TruncationOptions& options);
/// Appends `other`; what overflowed of the two is combined, each part with each.
void append(Encoding& encoding, Encoding other);
void pad(Encoding& encoding, std::size_t length, const PaddingOptions& options);

/// Throws UsageError for a length that a wrong file or call must have named: above 2^24.
void check_padded_length(std::size_t length);
/// Pads all to one length. Throws UsageError when the options name too long a one.
void pad(std::span<Encoding> batch, const PaddingOptions& options);

}  // namespace accelerate::detail
