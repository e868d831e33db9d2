// Tokens beside the model's: found in the text before anything else is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/tokenizers/added_token.h"
#include "accelerate/tokenizers/models/prefix_tree.h"
#include "accelerate/tokenizers/normalizers/normalizer.h"
#include "accelerate/tokenizers/text/aligned_text.h"

namespace accelerate::detail {

/// A token found, or what stands between two: then `id` is kNoId.
struct Found {
  Span range;
  std::uint32_t id;
};

class AddedVocabulary {
 public:
  /// Adds a token or changes the one of the same content.
  void add(const AddedToken& token, std::uint32_t id);
  /// To be called when tokens were added.
  void prepare(const Normalizer* normalizer);

  /// Cuts `text` at the tokens that are looked for before or after it was normalized.
  [[nodiscard]] std::vector<Found> cut(std::string_view text, bool is_normalized) const;

  [[nodiscard]] std::uint32_t find(std::string_view content) const;
  [[nodiscard]] const AddedToken* token_of(std::uint32_t id) const;
  /// The token as it is looked for: normalized, if it says so. nullptr when there is none.
  [[nodiscard]] const std::string* text_of(std::uint32_t id) const;
  [[nodiscard]] bool is_special(std::string_view content) const;
  [[nodiscard]] const std::map<std::uint32_t, AddedToken>& tokens() const { return by_id_; }

 private:
  struct Finder {
    PrefixTree tree;
    std::array<bool, 256> begins{};
    bool is_empty = true;
  };
  [[nodiscard]] bool extend(std::string_view text, std::uint32_t id, std::uint32_t done,
                            Span& range) const;

  std::map<std::uint32_t, AddedToken> by_id_;
  std::map<std::uint32_t, std::string> texts_;
  std::map<std::string, std::uint32_t, std::less<>> ids_;
  Finder raw_, normalized_;
};

}  // namespace accelerate::detail
