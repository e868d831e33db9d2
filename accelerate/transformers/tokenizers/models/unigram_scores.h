// The scores of a Unigram's tokens, as the original reads them.
#pragma once

#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Returns the number that is spelled at the beginning of `digits`, in the rounding of the original:
/// as many digits as fit go into a 64-bit integer, which is multiplied or divided once by a power
/// of ten. For 17 and more digits the result may be a neighbour of the nearest double. Infinite
/// beyond the range of doubles.
/// Source: the crate serde_json without its feature float_roundtrip.
[[nodiscard]] double original_number(std::string_view digits);

/// Returns the scores in the vocabulary of a Unigram, by original_number(). `document` is the text of
/// a tokenizer.json; fewer scores are returned if it is not well formed. Sums of scores decide
/// between ways to cut a text, so that another rounding makes other tokens where two sums are equal.
[[nodiscard]] std::vector<double> original_scores(std::string_view document);

}  // namespace accelerate::detail
