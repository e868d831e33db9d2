// Words that a model has met, and their tokens.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/models/model.h"
#include "accelerate/transformers/tokenizers/models/word_table.h"

namespace accelerate::detail {

/// Remembers the tokens of short words. Text repeats its words, so that most are looked up and few
/// are tokenized again. Each word has one place, for the last two words of up to six tokens or the
/// last word of more: a lookup touches one or two cache lines. For one thread at a time. Cost: 4 MiB
/// from the first word on.
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
    __builtin_prefetch(places_[place].data());
    return {word, place};
  }

  template <typename Tokenize>
  void look_up(const Expected& expected, std::vector<PieceToken>& out, const Tokenize& tokenize) {
    const std::string_view word = expected.word;
    if (expected.place == kPlaces) return void(tokenize(word, out));
    Place& place = places_[expected.place];
    if (place[0].holds(word)) {
      append(std::span(place[0].tokens).first(std::min<std::size_t>(place[0].count, kOfLine)), out);
      if (place[0].count > kOfLine) append(rest_of(place), out);
      return;
    }
    if (place[1].holds(word)) return append(std::span(place[1].tokens).first(place[1].count), out);
    const std::size_t before = out.size();
    if (tokenize(word, out)) remember(place, word, std::span(out).subspan(before));
  }

 private:
  static constexpr std::size_t kPlaces = 1 << 15, kOfLine = 6, kMostTokens = 12;

  // Ids are below 2^24, as Vocabulary makes sure.
  struct Token {
    std::array<std::uint8_t, 3> id;
    std::uint8_t begin, end;
  };
  struct alignas(64) Line {
    std::uint8_t bytes = 0, count = 0;
    std::array<char, kLongest> word;
    std::array<Token, kOfLine> tokens;

    [[nodiscard]] bool holds(std::string_view other) const {
      return bytes == other.size() && std::memcmp(word.data(), other.data(), other.size()) == 0;
    }
  };
  static_assert(sizeof(Line) == 64);
  // The first line is the newer one. If its word has more tokens than a line, they continue in the
  // other line, which then is of no word.
  using Place = std::array<Line, 2>;

  static void append(std::span<const Token> tokens, std::vector<PieceToken>& out) {
    for (const auto& [id, begin, end] : tokens) {
      out.push_back({static_cast<std::uint32_t>(id[0] | id[1] << 8 | id[2] << 16), begin, end});
    }
  }

  [[nodiscard]] static std::span<const Token> rest_of(const Place& place) {
    return std::span(place[1].tokens).first(place[0].count - kOfLine);
  }

  static void write(std::span<const PieceToken> tokens, std::array<Token, kOfLine>& to) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::uint32_t id = tokens[i].id;
      to[i] = {{static_cast<std::uint8_t>(id), static_cast<std::uint8_t>(id >> 8),
                static_cast<std::uint8_t>(id >> 16)},
               static_cast<std::uint8_t>(tokens[i].begin),
               static_cast<std::uint8_t>(tokens[i].end)};
    }
  }

  static void remember(Place& place, std::string_view word, std::span<const PieceToken> tokens) {
    if (tokens.size() > kMostTokens) return;
    auto& [first, second] = place;
    if (tokens.size() > kOfLine) {
      second.bytes = 0;
      write(tokens.subspan(kOfLine), second.tokens);
    } else if (first.count <= kOfLine) {
      second = first;
    }
    first.bytes = static_cast<std::uint8_t>(word.size());
    first.count = static_cast<std::uint8_t>(tokens.size());
    std::memcpy(first.word.data(), word.data(), word.size());
    write(tokens.first(std::min(tokens.size(), kOfLine)), first.tokens);
  }

  std::vector<Place> places_;
};

}  // namespace accelerate::detail
