// Finds the words that a text begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/models/word_table.h"

namespace accelerate::detail {

/// A tree of bytes whose edges are stored in one open hash table, for few words: it grows by one word
/// at a time, and a lookup takes one probe per byte. Of many words WordTrie is quicker.
class PrefixTree {
 public:
  void add(std::string_view word, std::uint32_t id);

  /// Calls `visit(bytes, id)` for every word that `text` begins with, shortest first.
  template <typename Visit>
  void each_prefix(std::string_view text, const Visit& visit) const {
    std::uint32_t node = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node == kNoId) return;
      if (ids_[node] != kNoId) visit(at + 1, ids_[node]);
    }
  }

 private:
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
  std::uint32_t make_child(std::uint32_t node, unsigned char byte);
  void grow();

  std::vector<Edge> edges_ = std::vector<Edge>(64);
  int shift_ = 58;
  std::size_t used_ = 0;
  std::vector<std::uint32_t> ids_ = {kNoId};
  std::vector<std::uint32_t> first_ = std::vector<std::uint32_t>(256, kNoId);
};

}  // namespace accelerate::detail
