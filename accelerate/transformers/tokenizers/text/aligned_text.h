// A text that is being normalized, and where in the original each of its bytes comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Bytes from `begin` up to `end`, of the original text or of the changed one.
struct Span {
  std::uint32_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

/// A character of a new text. `change` 0: it replaces one character. 1: it is inserted after the
/// character before it. -n: it replaces one character, and the n characters after that vanish.
struct Change {
  char32_t c;
  int change;
};

/// Text under normalization. As long as no character has moved, nothing but the text is stored.
/// Source: the struct NormalizedString of `tokenizers`, whose rules for the origin of inserted and
/// removed characters are kept.
class AlignedText {
 public:
  /// `original` must stay valid until the first change. It begins at byte `first_byte` of the whole
  /// input.
  AlignedText(std::string_view original, std::size_t first_byte)
      : view_(original),
        original_bytes_(original.size()),
        first_byte_(static_cast<std::uint32_t>(first_byte)) {}
  AlignedText(const AlignedText&) = delete;
  AlignedText& operator=(const AlignedText&) = delete;

  [[nodiscard]] std::string_view view() const { return view_; }

  /// Returns where the bytes from `begin` up to `end` come from, in bytes of the whole input. Not
  /// meant for empty ranges.
  [[nodiscard]] Span origin(std::size_t begin, std::size_t end) const;

  /// Replaces the text by the characters of `changes`. The first `removed_first` characters of the
  /// old text vanish.
  void transform(const std::vector<Change>& changes, std::size_t removed_first = 0);
  /// Keeps the characters for which `keep` is true.
  void filter(const std::function<bool(char32_t)>& keep);
  /// Replaces each character `c` by `to(c)`.
  void map(const std::function<char32_t(char32_t)>& to);
  /// Replaces each of `matches` by `content`. The matches must be in order and must not overlap.
  void replace(const std::vector<Span>& matches, std::string_view content);
  void prepend(std::string_view content);
  void append(std::string_view content);
  /// Drops white space at the ends.
  void strip(bool left, bool right);

  /// Throws DataError if `bytes` is more than 1 MiB plus 64 times the original. No honest file
  /// needs more, and one with many replacements of "a" by "aa" would fill the memory.
  void check_size(std::size_t bytes) const;

  /// Sets the whole text, for normalizers that write it themselves. `origins` has one entry per
  /// byte, or is empty if no character has moved.
  void assign(std::string text, std::vector<Span> origins);
  /// Returns where each byte of view() comes from.
  [[nodiscard]] std::vector<Span> origins() const;
  /// As origins(), but leaves none behind: only view() and assign() may be called next.
  [[nodiscard]] std::vector<Span> take_origins();

 private:
  [[nodiscard]] bool stands() const { return origins_.empty(); }
  void append_origins(std::vector<Span>& to) const;

  std::string_view view_;
  std::string text_;
  std::vector<Span> origins_;
  std::size_t original_bytes_;
  std::uint32_t first_byte_;
};

}  // namespace accelerate::detail
