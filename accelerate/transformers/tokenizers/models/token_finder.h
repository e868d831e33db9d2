// Finds tokens in a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/models/word_table.h"
#include "accelerate/transformers/tokenizers/text/aligned_text.h"

namespace accelerate::detail {

/// A token that was found, or the text between two tokens, for which `id` is kNoId.
struct Found {
  Span range;
  std::uint32_t id;
  bool operator==(const Found&) const = default;
};

/// Finds the leftmost token first, and the longest of several that begin at one place; the search
/// continues behind it. Source: Aho and Corasick, "Efficient String Matching" (1975), from the end
/// of the text to its beginning: so the longest token is known at each place where one begins.
class TokenFinder {
 public:
  /// Adds `token`, which is not empty, unless an equal one is there. Call prepare() afterwards.
  void add(std::string_view token, std::uint32_t id);
  void prepare();

  /// Appends the tokens in `text`, in order. Returns how many edges were looked up, at most two for
  /// each byte of the text, whatever the tokens are.
  std::size_t find_all(std::string_view text, std::vector<Found>& found) const;

 private:
  // A node stands for its path, the last bytes of one or more tokens.
  struct Node {
    std::uint32_t parent = 0,
                  bytes = 0;     // The node of the path without its first byte; its length.
    std::uint32_t fallback = 0;  // The node of the longest other path with which this one begins.
    std::uint32_t id = kNoId;    // The longest token with which the path begins…
    std::uint32_t token_bytes = 0;  // … and its length.
    unsigned char byte = 0;
  };
  struct Edge {
    std::uint64_t key = kFree;  // The node and the byte.
    std::uint32_t to = 0;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  [[nodiscard]] static std::uint64_t key_of(std::uint32_t node, unsigned char byte) {
    return std::uint64_t{node} << 8 | byte;
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    std::size_t at = (key * 0x9E3779B97F4A7C15) >> shift_;
    while (edges_[at].key != kFree && edges_[at].key != key) at = (at + 1) & (edges_.size() - 1);
    return at;
  }
  [[nodiscard]] std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    if (node == 0) return first_[byte];
    const Edge& edge = edges_[slot_of(key_of(node, byte))];
    return edge.key == kFree ? kNoId : edge.to;
  }
  /// Returns the node of the longest path that begins with `byte` and continues as `node` begins.
  /// Counts the edges that it looks up.
  [[nodiscard]] std::uint32_t next(std::uint32_t node, unsigned char byte,
                                   std::size_t& looked_up) const;
  std::uint32_t make_child(std::uint32_t node, unsigned char byte);

  std::vector<Node> nodes_ = std::vector<Node>(1);
  /// Edges but those of the first node, in an open hash table that is at most half full.
  std::vector<Edge> edges_ = std::vector<Edge>(64);
  int shift_ = 58;
  std::array<std::uint32_t, 256> first_ = filled_with_none();

  static std::array<std::uint32_t, 256> filled_with_none() {
    std::array<std::uint32_t, 256> none{};
    none.fill(kNoId);
    return none;
  }
};

}  // namespace accelerate::detail
