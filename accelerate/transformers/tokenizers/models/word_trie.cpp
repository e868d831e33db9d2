#include "accelerate/transformers/tokenizers/models/word_trie.h"

#include <algorithm>

namespace accelerate::detail {
namespace {

// A word, by its first eight bytes and its number in the table.
struct SortedWord {
  std::uint64_t beginning;
  std::uint32_t index;
};

std::uint64_t beginning_of(std::string_view word) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i)
    value = value << 8 | (i < word.size() ? static_cast<unsigned char>(word[i]) : 0U);
  return value;
}

std::vector<SortedWord> sorted_words(const WordTable& table) {
  std::vector<SortedWord> words;
  words.reserve(table.size());
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    if (!table.word(i).empty()) words.push_back({beginning_of(table.word(i)), i});
  }
  std::sort(words.begin(), words.end(), [&](const SortedWord& a, const SortedWord& b) {
    if (a.beginning != b.beginning) return a.beginning < b.beginning;
    return table.word(a.index) < table.word(b.index);
  });
  return words;
}

// Makes nodes in the order of the words. Free units of the last blocks are linked in a ring, in which
// the search for a base looks at a few.
class WordTrieMaker {
 public:
  WordTrieMaker(const WordTable& table, std::vector<WordTrie::Unit>& units,
                std::vector<std::uint32_t>& ids)
      : table_(table), units_(units), ids_(ids), words_(sorted_words(table)) {
    add_block();
    take(0, kNoId - 1);
  }

  void run() {
    std::vector<Part> open{{0, 0, words_.size(), 0}};
    while (!open.empty()) {
      const Part part = open.back();
      open.pop_back();
      std::vector<Part> children = children_of(part);
      if (children.empty()) continue;
      place(part.node, children);
      open.insert(open.end(), children.rbegin(), children.rend());
    }
  }

 private:
  // The words from `begin` up to `end` agree in `depth` bytes, which lead to `node`. Of a child that
  // has no place yet, `node` is its byte.
  struct Part {
    std::uint32_t node;
    std::size_t begin, end, depth;
  };
  struct Link {
    std::uint32_t before, behind;
  };
  static constexpr std::uint32_t kBlock = 256, kOpenBlocks = 16, kTries = 64;

  [[nodiscard]] std::string_view word(std::size_t at) const {
    return table_.word(words_[at].index);
  }

  [[nodiscard]] std::vector<Part> children_of(const Part& part) const {
    std::vector<Part> children;
    for (std::size_t at = part.begin; at < part.end; ++at) {
      if (word(at).size() == part.depth) continue;
      const auto byte = static_cast<unsigned char>(word(at)[part.depth]);
      if (children.empty() || children.back().node != byte)
        children.push_back({byte, at, at, part.depth + 1});
      children.back().end = at + 1;
    }
    return children;
  }

  // Gives the children of `node` their units.
  void place(std::uint32_t node, std::vector<Part>& children) {
    const std::uint32_t base = find_base(children);
    units_[node].base |= base << 1;
    for (Part& child : children) {
      child.node ^= base;
      take(child.node, node);
      if (word(child.begin).size() != child.depth) continue;
      units_[child.node].base = 1;
      ids_[child.node] = table_.id(words_[child.begin].index);
    }
  }

  std::uint32_t find_base(const std::vector<Part>& children) {
    std::uint32_t unit = first_free_;
    for (std::uint32_t tries = 0; tries < kTries && unit != kNoId; ++tries) {
      const std::uint32_t base = unit ^ children[0].node;
      const auto is_free = [&](const Part& child) {
        return units_[base ^ child.node].parent == kNoId;
      };
      if (std::all_of(children.begin(), children.end(), is_free)) return base;
      unit = links_[unit].behind;
    }
    return add_block();
  }

  // Links the units of a new block, and returns its beginning. A block that is old is left as it is.
  std::uint32_t add_block() {
    const auto begin = static_cast<std::uint32_t>(units_.size());
    units_.resize(begin + kBlock);
    ids_.resize(begin + kBlock, kNoId);
    links_.resize(begin + kBlock);
    for (std::uint32_t unit = begin; unit < begin + kBlock; ++unit) {
      links_[unit] = {last_free_, kNoId};
      (last_free_ == kNoId ? first_free_ : links_[last_free_].behind) = unit;
      last_free_ = unit;
    }
    while (first_free_ + kOpenBlocks * kBlock < begin) unlink(first_free_);
    return begin;
  }

  void unlink(std::uint32_t unit) {
    const auto [before, behind] = links_[unit];
    (before == kNoId ? first_free_ : links_[before].behind) = behind;
    (behind == kNoId ? last_free_ : links_[behind].before) = before;
    links_[unit] = {unit, unit};
  }

  void take(std::uint32_t unit, std::uint32_t parent) {
    // Units of old blocks are free, but linked to themselves.
    if (links_[unit].before != unit) unlink(unit);
    units_[unit].parent = parent;
  }

  const WordTable& table_;
  std::vector<WordTrie::Unit>& units_;
  std::vector<std::uint32_t>& ids_;
  std::vector<SortedWord> words_;
  std::vector<Link> links_;
  std::uint32_t first_free_ = kNoId, last_free_ = kNoId;
};

}  // namespace

WordTrie::WordTrie(const WordTable& table) {
  WordTrieMaker(table, units_, ids_).run();
}

}  // namespace accelerate::detail
