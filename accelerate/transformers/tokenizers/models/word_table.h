// Words and their ids, both ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

inline constexpr std::uint32_t kNoId = std::numeric_limits<std::uint32_t>::max();

/// An open hash table of words, at most half full: most lookups take one probe. Words are stored
/// one after the other in one block of memory.
class WordTable {
 public:
  void reserve(std::size_t words, std::size_t bytes);
  /// Adds a word, or gives another id to one that is there. Returns the id that it had before, or
  /// kNoId.
  std::uint32_t add(std::string_view word, std::uint32_t id);
  /// Returns the id of `word`, or kNoId if it is not there.
  [[nodiscard]] std::uint32_t find(std::string_view word) const {
    return find(word, hash_of(word));
  }
  [[nodiscard]] std::uint32_t find(std::string_view word, std::uint64_t hash) const {
    const std::uint32_t entry = entry_of(word, hash);
    return entry == kNoId ? kNoId : entries_[entry].id;
  }
  /// Returns the number of a word that is there.
  [[nodiscard]] std::size_t index_of(std::string_view word) const {
    return entry_of(word, hash_of(word));
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t longest() const { return longest_; }
  /// The word added as number `index`, and its id.
  [[nodiscard]] std::string_view word(std::size_t index) const {
    return {letters_.data() + entries_[index].begin, entries_[index].bytes};
  }
  [[nodiscard]] std::uint32_t id(std::size_t index) const { return entries_[index].id; }
  /// All words, one after the other.
  [[nodiscard]] std::string_view letters() const { return letters_; }

  [[nodiscard]] static std::uint64_t hash_of(std::string_view word);

 private:
  struct Entry {
    std::uint64_t begin;
    std::uint32_t bytes, id;
  };
  struct Slot {
    std::uint32_t check = 0;      // The hash's upper half.
    std::uint32_t entry = kNoId;  // kNoId: free.
  };
  [[nodiscard]] std::uint32_t entry_of(std::string_view word, std::uint64_t hash) const {
    if (slots_.empty()) return kNoId;
    const std::size_t mask = slots_.size() - 1;
    const auto check = static_cast<std::uint32_t>(hash >> 32);
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot slot = slots_[at];
      if (slot.entry == kNoId) return kNoId;
      if (slot.check == check && this->word(slot.entry) == word) return slot.entry;
    }
  }
  void grow(std::size_t slots);

  std::vector<Slot> slots_;
  std::vector<Entry> entries_;
  std::string letters_;
  std::size_t longest_ = 0;
};

/// The vocabulary of a model, which also finds words by id.
class Vocabulary {
 public:
  void reserve(std::size_t words, std::size_t bytes) { table_.reserve(words, bytes); }
  /// Adds an entry of a map. A word that is there already keeps its new id alone. Throws ConfigError
  /// when the id is 2^24 or more.
  void add(std::string_view word, std::uint32_t id);
  /// Adds an entry of a list, whose id is size(). A word that is there already is found by its new
  /// id, but word_of() still knows both ids. Throws as add() does.
  void append(std::string_view word);
  [[nodiscard]] std::uint32_t find(std::string_view word) const { return table_.find(word); }
  /// nullopt when no word has this id.
  [[nodiscard]] std::optional<std::string_view> word_of(std::uint32_t id) const {
    if (id >= by_id_.size() || by_id_[id].bytes == kNoId) return std::nullopt;
    return table_.letters().substr(by_id_[id].begin, by_id_[id].bytes);
  }
  [[nodiscard]] const WordTable& words() const { return table_; }
  /// The number of entries, those of a list whose word comes again among them.
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  /// Returns the id that the word had before, or kNoId.
  std::uint32_t put(std::string_view word, std::uint32_t id);

  WordTable table_;
  std::size_t size_ = 0;
  // Where a word is among the table's letters. Saves the load that the word's number would cost.
  struct Place {
    std::uint32_t begin = 0, bytes = kNoId;  // kNoId: no word.
  };
  std::vector<Place> by_id_;  // The last of several words that share an id.
};

}  // namespace accelerate::detail
