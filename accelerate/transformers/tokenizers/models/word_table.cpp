#include "accelerate/transformers/tokenizers/models/word_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t eight_bytes(const char* from) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, 8);
  return value;
}

// Packs the last 0 to 8 bytes into a number. Overlapping loads of fixed sizes are quicker than a
// call of memcpy.
std::uint64_t last_bytes(const char* from, std::size_t bytes) {
  if (bytes == 8) return eight_bytes(from);
  if (bytes >= 4) {
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, from, 4);
    std::memcpy(&high, from + bytes - 4, 4);
    return std::uint64_t{high} << 32 | low;
  }
  const auto byte = [&](std::size_t i) {
    return std::uint64_t{static_cast<unsigned char>(from[i])};
  };
  return bytes == 0 ? 0 : byte(0) | byte(bytes / 2) << 8 | byte(bytes - 1) << 16;
}

}  // namespace

// Takes eight bytes a step and folds them by a multiplication to 128 bits, as wyhash does.
std::uint64_t WordTable::hash_of(std::string_view word) {
  constexpr std::uint64_t kA = 0x9E3779B97F4A7C15, kB = 0xD6E8FEB86659FD93;
  std::uint64_t hash = kA ^ word.size();
  const char* at = word.data();
  std::size_t left = word.size();
  for (; left > 8; left -= 8, at += 8) hash = mixed(hash ^ eight_bytes(at), kB);
  return mixed(hash ^ last_bytes(at, left), kB ^ word.size());
}

void WordTable::reserve(std::size_t words, std::size_t bytes) {
  entries_.reserve(words);
  letters_.reserve(bytes);
  grow(std::bit_ceil(2 * std::max<std::size_t>(words, 8)));
}

std::uint32_t WordTable::add(std::string_view word, std::uint32_t id) {
  const std::uint64_t hash = hash_of(word);
  if (const std::uint32_t entry = entry_of(word, hash); entry != kNoId)
    return std::exchange(entries_[entry].id, id);
  if (2 * (entries_.size() + 1) > slots_.size()) grow(std::max<std::size_t>(16, 2 * slots_.size()));
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].entry != kNoId) at = (at + 1) & mask;
  slots_[at] = {static_cast<std::uint32_t>(hash >> 32),
                static_cast<std::uint32_t>(entries_.size())};
  entries_.push_back({letters_.size(), static_cast<std::uint32_t>(word.size()), id});
  letters_.append(word);
  longest_ = std::max(longest_, word.size());
  return kNoId;
}

void WordTable::grow(std::size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, Slot{});
  const std::size_t mask = slots - 1;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::uint64_t hash = hash_of(word(i));
    std::size_t at = hash & mask;
    while (slots_[at].entry != kNoId) at = (at + 1) & mask;
    slots_[at] = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(i)};
  }
}

void Vocabulary::add(std::string_view word, std::uint32_t id) {
  const std::uint32_t before = put(word, id);
  if (before == kNoId)
    ++size_;
  else if (before != id)
    by_id_[before] = {};
}

void Vocabulary::append(std::string_view word) {
  put(word, static_cast<std::uint32_t>(size_));
  ++size_;
}

std::uint32_t Vocabulary::put(std::string_view word, std::uint32_t id) {
  constexpr std::uint32_t kMost = 1 << 24;
  if (id >= kMost) {
    throw ConfigError("gives '" + std::string(word) + "' the id " + std::to_string(id) +
                      "; allowed are ids below " + std::to_string(kMost));
  }
  const std::uint32_t before = table_.add(word, id);
  const std::string_view stored =
      table_.word(before == kNoId ? table_.size() - 1 : table_.index_of(word));
  if (id >= by_id_.size()) by_id_.resize(std::max<std::size_t>(id + 1, table_.size()));
  by_id_[id] = {static_cast<std::uint32_t>(stored.data() - table_.letters().data()),
                static_cast<std::uint32_t>(stored.size())};
  return before;
}

}  // namespace accelerate::detail
