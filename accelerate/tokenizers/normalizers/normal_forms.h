// The four normal forms of Unicode, with what became of each character.
#pragma once

#include <string_view>
#include <vector>

#include "accelerate/tokenizers/text/aligned_text.h"  // Change

namespace accelerate::detail {

/// Replaces `out` by a normal form of `in`: NFD, or NFC if `composed`, or NFKD and NFKC if
/// `compatible`. `change` of a character: 0 if it stands for one of `in`, 1 for each further
/// character that a decomposition inserts, -n if n characters of `in` vanish in it. Marks that
/// change places keep the change they came with.
/// Cost: linear, some loads a character; sorts each run of marks.
/// Source: the Rust crate `unicode-normalization-alignments`, which `tokenizers` uses.
void normal_form(std::u32string_view in, bool compatible, bool composed, std::vector<Change>& out);

}  // namespace accelerate::detail
