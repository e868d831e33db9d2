// A text that is being normalized, and where in the original each of its bytes comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Bytes from `begin` up to `end`, of the original or of what became of it.
struct Span {
  std::uint32_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

/// A character of a new text. `change` 0: it takes the place of one character; 1: it is inserted
/// behind the one before; -n: it takes the place of one character and n behind it vanish.
struct Change {
  char32_t c;
  int change;
};

/// Text under normalization. As long as every character stands where it stood, nothing is stored
/// but the text. Source: the struct NormalizedString of `tokenizers`, whose rules for the origin of
/// inserted and removed characters are kept.
class AlignedText {
 public:
  /// `original` must outlive this as long as nothing is changed; it begins `first_byte` bytes
  /// behind the beginning of the whole input.
  AlignedText(std::string_view original, std::size_t first_byte)
      : view_(original),
        original_bytes_(original.size()),
        first_byte_(static_cast<std::uint32_t>(first_byte)) {}
  AlignedText(const AlignedText&) = delete;
  AlignedText& operator=(const AlignedText&) = delete;

  [[nodiscard]] std::string_view view() const { return view_; }

  /// Where the bytes from `begin` up to `end` come from, in bytes of the whole input; of an empty
  /// range nothing is asked.
  [[nodiscard]] Span origin(std::size_t begin, std::size_t end) const;

  /// The text becomes the characters of `changes`, of which the first stands for the character
  /// behind `removed_first` others.
  void transform(const std::vector<Change>& changes, std::size_t removed_first = 0);
  /// Keeps the characters that `keep` names.
  void filter(const std::function<bool(char32_t)>& keep);
  /// One character for each.
  void map(const std::function<char32_t(char32_t)>& to);
  /// Puts `content` for each of `matches`, which stand in order and do not overlap.
  void replace(const std::vector<Span>& matches, std::string_view content);
  void prepend(std::string_view content);
  void append(std::string_view content);
  /// Drops white space at the ends.
  void strip(bool left, bool right);

  /// Throws DataError when a text of so many bytes cannot be what an honest file makes of the
  /// original: a list of "a" to "aa" would fill the memory.
  void check_size(std::size_t bytes) const;

  /// For normalizers that write a whole text themselves: `origins` has one entry a byte, or none
  /// when every character stands where it stood.
  void assign(std::string text, std::vector<Span> origins);
  /// One entry a byte of view().
  [[nodiscard]] std::vector<Span> origins() const;

 private:
  [[nodiscard]] bool stands() const { return origins_.empty(); }

  std::string_view view_;
  std::string text_;
  std::vector<Span> origins_;
  std::size_t original_bytes_;
  std::uint32_t first_byte_;
};

}  // namespace accelerate::detail
