// Finds chunks of tagged words: "B-PER I-PER O" holds one chunk of type PER.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace accelerate::detail {

enum class TagScheme { iob1, iob2, ioe1, ioe2, iobes, bilou };

/// Returns the scheme called "IOB1", "IOB2", "IOE1", "IOE2", "IOBES" or "BILOU". Throws ConfigError
/// for another name.
[[nodiscard]] TagScheme tag_scheme(const std::string& name);

/// A word's place in a chunk, and the chunk's type as an index into TagSet::types().
struct Tag {
  char prefix = 'O';
  std::int64_t type = 0;
  bool operator==(const Tag&) const = default;
};

/// The words `begin` to `end`, both included.
struct TagChunk {
  std::int64_t type = 0, begin = 0, end = 0;
  bool operator==(const TagChunk&) const = default;
};

/// How the name of a class is read.
struct TagReading {
  bool has_suffix = false;  ///< "PER-B" instead of "B-PER".
  bool is_strict = false;   ///< As strict mode reads it: all dashes around a type are dropped.
};

/// The tags of numbered classes.
class TagSet {
 public:
  /// `names`: the names of classes 0, 1, …. Throws ConfigError for an empty name.
  TagSet(const std::vector<std::string>& names, TagReading reading);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(tags_.size()); }
  [[nodiscard]] const Tag& of(std::int64_t label) const {
    return tags_[static_cast<std::size_t>(label)];
  }
  /// The least class that has the same name as `label`.
  [[nodiscard]] std::int64_t first_of_name(std::int64_t label) const {
    return first_of_name_[static_cast<std::size_t>(label)];
  }
  /// Types by index. The first is "_", the type of tags without one.
  [[nodiscard]] const std::vector<std::string>& types() const { return types_; }
  /// The types that a chunk can have, ordered by name.
  [[nodiscard]] std::vector<std::int64_t> chunk_types() const;

 private:
  std::int64_t type_index(const std::string& type);

  std::vector<Tag> tags_;
  std::vector<std::int64_t> first_of_name_;
  std::vector<std::string> types_{"_"};
};

/// Throws ConfigError for a class of `tags` whose prefix `scheme` does not have. `names`: the names
/// of the classes.
void check_prefixes(const TagSet& tags, const std::vector<std::string>& names, TagScheme scheme);

/// Returns the chunks of a sentence by the rules of conlleval, which take any tags: a chunk ends
/// where its type or a prefix says so. Ordered by end. Source: seqeval, mode None.
[[nodiscard]] std::vector<TagChunk> lenient_chunks(std::span<const Tag> tags);

/// Returns the chunks of a sentence that `scheme` allows; ill-formed chunks are left out. Ordered
/// by end. Source: seqeval, mode "strict".
[[nodiscard]] std::vector<TagChunk> strict_chunks(std::span<const Tag> tags, TagScheme scheme);

}  // namespace accelerate::detail
