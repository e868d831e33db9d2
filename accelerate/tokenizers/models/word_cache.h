// Words that a model has met, and their tokens.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/tokenizers/models/model.h"
#include "accelerate/tokenizers/models/word_table.h"

namespace accelerate::detail {

/// Remembers the tokens of short words. Text repeats its words, so that most are looked up and few
/// are tokenized again. Each word has one place, where it replaces the word that was there before:
/// a lookup touches one or two cache lines. For one thread at a time. Cost: 4 MiB from the first
/// word on.
class WordCache : public Scratch {
 public:
  static constexpr std::size_t kLongest = 30;

  /// Appends the tokens of `word` if they are remembered. Otherwise calls `tokenize(word, out)`,
  /// which appends them, and remembers them unless it returns false.
  template <typename Tokenize>
  void look_up(std::string_view word, std::vector<PieceToken>& out, const Tokenize& tokenize) {
    look_up(expect(word), out, tokenize);
  }

  /// A word that is looked up soon.
  struct Expected {
    std::string_view word;
    std::size_t place;
  };
  /// Asks for the memory of the word's place, which is rarely near.
  [[nodiscard]] Expected expect(std::string_view word) {
    if (word.size() > kLongest || word.empty()) return {word, kPlaces};
    if (places_.empty()) places_.resize(kPlaces);
    const std::size_t place = WordTable::hash_of(word) % kPlaces;
    __builtin_prefetch(&places_[place]);
    return {word, place};
  }

  template <typename Tokenize>
  void look_up(const Expected& expected, std::vector<PieceToken>& out, const Tokenize& tokenize) {
    const std::string_view word = expected.word;
    if (expected.place == kPlaces) return void(tokenize(word, out));
    Place& place = places_[expected.place];
    if (place.bytes == word.size() &&
        std::memcmp(place.word.data(), word.data(), word.size()) == 0) {
      for (std::size_t i = 0; i < place.count; ++i) {
        const Token& token = place.tokens[i];
        out.push_back({token.id, token.begin, token.end});
      }
      return;
    }
    const std::size_t before = out.size();
    if (tokenize(word, out)) remember(place, word, std::span(out).subspan(before));
  }

 private:
  static constexpr std::size_t kMostTokens = 12, kPlaces = 1 << 15;

  struct Token {
    std::uint32_t id;
    std::uint16_t begin, end;
  };
  // The word and its first four tokens share a cache line.
  struct alignas(64) Place {
    std::uint8_t bytes = 0, count = 0;
    std::array<char, kLongest> word;
    std::array<Token, kMostTokens> tokens;
  };

  static void remember(Place& place, std::string_view word, std::span<const PieceToken> tokens) {
    if (tokens.size() > kMostTokens) return;
    place.bytes = static_cast<std::uint8_t>(word.size());
    place.count = static_cast<std::uint8_t>(tokens.size());
    std::memcpy(place.word.data(), word.data(), word.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      place.tokens[i] = {tokens[i].id, static_cast<std::uint16_t>(tokens[i].begin),
                         static_cast<std::uint16_t>(tokens[i].end)};
    }
  }

  std::vector<Place> places_;
};

}  // namespace accelerate::detail
