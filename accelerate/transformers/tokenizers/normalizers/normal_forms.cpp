#include "accelerate/transformers/tokenizers/normalizers/normalizer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {

namespace {

/// Sorts the marks from `begin` on by combining class. Marks of equal class keep their order.
void sort_marks(std::vector<Change>& text, std::size_t begin) {
  if (text.size() - begin < 2) return;
  std::stable_sort(
      text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(),
      [](const Change& a, const Change& b) { return combining_class(a.c) < combining_class(b.c); });
}

/// Appends characters in canonical order.
class Decomposer {
 public:
  explicit Decomposer(std::vector<Change>& out) : out_(out) {}

  void add(char32_t c, int change) {
    const bool mark = combining_class(c) != 0;
    if (!mark) finish();
    out_.push_back({c, change});
    if (!mark) first_mark_ = out_.size();
  }
  void finish() { sort_marks(out_, first_mark_); }

 private:
  std::vector<Change>& out_;
  std::size_t first_mark_ = 0;
};

void decompose(std::u32string_view in, bool compatible, std::vector<Change>& out) {
  Decomposer decomposer(out);
  for (const char32_t c : in) {
    const auto parts = c < 0x80 ? std::u32string_view() : compatible ? nfkd_of(c) : nfd_of(c);
    if (parts.empty()) decomposer.add(c, 0);
    for (std::size_t i = 0; i < parts.size(); ++i) decomposer.add(parts[i], i == 0 ? 0 : 1);
  }
  decomposer.finish();
}

/// Composes decomposed text in place: it never becomes longer. The text composed so far ends with a
/// base that may still compose, and the marks that did not compose with it.
class Recomposer {
 public:
  explicit Recomposer(std::vector<Change>& text) : text_(text) {}

  void run() {
    for (std::size_t i = 0; i < text_.size(); ++i) add(text_[i]);
    text_.resize(size_);
  }

 private:
  void add(Change next) {
    const std::uint8_t next_class = combining_class(next.c);
    if (!blocked(next_class) && absorb(next)) return;
    if (next_class == 0) {
      base_ = size_;
      last_class_.reset();
    } else if (base_) {
      last_class_ = next_class;
    }
    text_[size_++] = next;
  }

  /// Whether a character of this class cannot compose: there is no base, or a mark of the same or a
  /// higher class stayed before it.
  [[nodiscard]] bool blocked(std::uint8_t next_class) const {
    return !base_ || (last_class_ && *last_class_ >= next_class);
  }

  bool absorb(const Change& next) {
    Change& base = text_[*base_];
    const auto composed = compose(base.c, next.c);
    if (composed) base = {*composed, base.change + next.change - 1};
    return composed.has_value();
  }

  std::vector<Change>& text_;
  std::size_t size_ = 0;
  std::optional<std::size_t> base_;
  std::optional<std::uint8_t> last_class_;
};

}  // namespace

void normal_form(std::u32string_view in, bool compatible, bool composed, std::vector<Change>& out) {
  out.clear();
  out.reserve(in.size());
  decompose(in, compatible, out);
  if (composed) Recomposer(out).run();
}

}  // namespace accelerate::detail
