// The four normal forms of Unicode, and what became of each character.
#pragma once

#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/text/aligned_text.h"  // Change

namespace accelerate::detail {

/// Replaces `out` by a normal form of `in`: NFD, NFC if `composed`, NFKD if `compatible`, NFKC if
/// both. A character's `change` is 0 if it stands for one character of `in`, 1 if a decomposition
/// inserted it, -n if n further characters of `in` were composed into it. Marks that are reordered
/// keep their `change`.
/// Cost: linear, some loads a character; sorts each run of marks.
/// Source: the Rust crate `unicode-normalization-alignments`, which `tokenizers` uses.
void normal_form(std::u32string_view in, bool compatible, bool composed, std::vector<Change>& out);

}  // namespace accelerate::detail
