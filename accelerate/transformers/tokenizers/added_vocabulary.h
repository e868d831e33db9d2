// Tokens in addition to the model's vocabulary. A text is cut at them before all else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/added_token.h"
#include "accelerate/transformers/tokenizers/models/token_finder.h"
#include "accelerate/transformers/tokenizers/normalizers/normalizer.h"
#include "accelerate/transformers/tokenizers/text/aligned_text.h"

namespace accelerate::detail {

/// Which tokens cut() looks for.
struct TokenSearch {
  bool is_normalized = false;  ///< Those of normalized text; else those of the original text.
  bool keeps_special = true;   ///< Without it, special tokens are text.
};

class AddedVocabulary {
 public:
  /// Adds `token` under `id`, in place of a token that had this id. Ignores an empty token.
  void add(const AddedToken& token, std::uint32_t id);
  /// Must be called after add() and before cut().
  void prepare(const Normalizer* normalizer);

  /// Cuts `text` at added tokens, as TokenFinder finds them. Cost: the size of the text.
  [[nodiscard]] std::vector<Found> cut(std::string_view text, const TokenSearch& search) const;

  [[nodiscard]] std::uint32_t find(std::string_view content) const;
  /// Returns the text that is searched for: the token's content, normalized if the token asks for
  /// it. nullptr if no token has this id.
  [[nodiscard]] const std::string* text_of(std::uint32_t id) const;
  /// Whether a token of this content was ever added as special: adding it again as an ordinary
  /// token does not change that, as in the original.
  [[nodiscard]] bool is_special(std::string_view content) const {
    return special_.contains(content);
  }
  [[nodiscard]] const std::map<std::uint32_t, AddedToken>& tokens() const { return by_id_; }

 private:
  [[nodiscard]] bool extend(std::string_view text, std::uint32_t id, std::uint32_t done,
                            Span& range) const;

  std::map<std::uint32_t, AddedToken> by_id_;
  std::map<std::uint32_t, std::string> texts_;
  std::map<std::string, std::uint32_t, std::less<>> ids_;
  std::set<std::string, std::less<>> special_;
  TokenFinder raw_, normalized_;
};

}  // namespace accelerate::detail
