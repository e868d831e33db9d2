// Finds the words of a large vocabulary that a text begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/models/word_table.h"

namespace accelerate::detail {

/// A tree of bytes as a double array: the child of a node by a byte lies at base XOR byte, and names
/// its parent. A step costs one load of 8 bytes, mostly near the one before, where a hash table's
/// loads are anywhere. It cannot grow.
/// Source: Aoe, "An Efficient Digital Search Algorithm by Using a Double-Array Structure" (1989).
class WordTrie {
 public:
  struct Unit {
    std::uint32_t base = 0;  ///< Twice the base, and 1 if a word ends here.
    std::uint32_t parent = kNoId;
  };

  /// Cost: about 0.3 µs a word. An empty word is left out.
  explicit WordTrie(const WordTable& table);

  /// Calls `visit(bytes, id)` for every word that `text` begins with, shortest first.
  template <typename Visit>
  void each_prefix(std::string_view text, const Visit& visit) const {
    std::uint32_t node = 0, base = units_[0].base;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const std::uint32_t child = (base >> 1) ^ static_cast<unsigned char>(text[at]);
      const Unit unit = units_[child];
      if (unit.parent != node) return;
      if ((unit.base & 1) != 0) visit(at + 1, ids_[child]);
      node = child;
      base = unit.base;
    }
  }

 private:
  std::vector<Unit> units_;
  std::vector<std::uint32_t> ids_;
};

}  // namespace accelerate::detail
