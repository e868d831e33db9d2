// SentencePiece's map of characters: a double array that finds what is replaced, and the
// replacements.
// Source: the Rust crate spm_precompiled, sentencepiece/src/normalizer.cc.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/base64.h"
#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"
#include "accelerate/tokenizers/normalizers/normalizer.h"
#include "accelerate/tokenizers/unicode/code_points.h"
#include "accelerate/tokenizers/unicode/graphemes.h"

namespace accelerate::detail {
namespace {

std::string decoded(const JsonView& json) {
  try {
    return from_base64(json.text());
  } catch (const ConfigError&) {
    json.refuse("is no base64");
  }
}

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// A unit of the double array, in the layout that darts-clone writes.
struct Unit {
  std::uint32_t bits;
  [[nodiscard]] bool has_leaf() const { return (bits >> 8 & 1) == 1; }
  [[nodiscard]] std::uint32_t value() const { return bits & 0x7FFFFFFF; }
  [[nodiscard]] std::uint32_t label() const { return bits & 0x800000FF; }
  [[nodiscard]] std::uint32_t offset() const { return bits >> 10 << ((bits & 0x200) >> 6); }
};

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(const JsonView& json) {
    const JsonView map = json.at("precompiled_charsmap");
    const std::string bytes = decoded(map);
    if (bytes.size() < 4)
      map.refuse("is " + std::to_string(bytes.size()) + " bytes; its header alone has 4");
    const std::size_t size = little_endian(bytes);
    if (size % 4 != 0 || size > bytes.size() - 4) {
      map.refuse("says that its first part has " + std::to_string(size) + " bytes; there are " +
                 std::to_string(bytes.size() - 4));
    }
    for (std::size_t at = 4; at < 4 + size; at += 4) {
      units_.push_back({little_endian(std::string_view(bytes).substr(at, 4))});
    }
    texts_ = bytes.substr(4 + size);
    place_ = map.place();
    if (!is_utf8(texts_)) map.refuse("has a second part that is not UTF-8");
  }

  // As in the original, a grapheme of up to five bytes is replaced as a whole. If the map knows
  // only its beginning, the rest is lost.
  void apply(AlignedText& text) const override {
    constexpr std::size_t kLongest = 5;
    std::vector<Change> changes;
    bool differs = false;
    const std::string_view view = text.view();
    for (std::size_t begin = 0, end = 0; begin < view.size(); begin = end) {
      text.check_size(changes.size());
      end = end_of_grapheme(view, begin);
      const auto grapheme = view.substr(begin, end - begin);
      if (grapheme.size() <= kLongest && replace(grapheme, changes)) {
        differs = true;
        continue;
      }
      for (std::size_t at = 0; at < grapheme.size();) {
        const std::size_t first = at;
        const char32_t c = next_code_point(grapheme, at);
        if (replace(grapheme.substr(first, at - first), changes)) {
          differs = true;
        } else {
          changes.push_back({c, 0});
        }
      }
    }
    if (differs) text.transform(changes);
  }

 private:
  bool replace(std::string_view part, std::vector<Change>& changes) const {
    const auto by = find(part);
    if (!by) return false;
    const std::u32string text = to_utf32(*by);
    const auto before = static_cast<int>(count_code_points(part));
    const auto after = static_cast<int>(text.size());
    for (int i = 0; i < after; ++i)
      changes.push_back({text[static_cast<std::size_t>(i)], i < before ? 0 : 1});
    if (after < before && !changes.empty()) changes.back().change -= before - after;
    return true;
  }

  // Returns the replacement of the shortest beginning of `part` that the map knows.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view part) const {
    if (units_.empty()) return std::nullopt;
    std::size_t at = units_[0].offset();
    for (const char c : part) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return std::nullopt;
      at ^= byte;
      const Unit unit = unit_at(at);
      if (unit.label() != byte) return std::nullopt;
      at ^= unit.offset();
      if (unit.has_leaf()) return text_at(unit_at(at).value());
    }
    return std::nullopt;
  }

  [[nodiscard]] Unit unit_at(std::size_t at) const {
    if (at >= units_.size()) refuse_place(at, units_.size(), "units");
    return units_[at];
  }

  [[nodiscard]] std::string_view text_at(std::size_t begin) const {
    if (begin >= texts_.size() || !begins_character(texts_[begin]))
      refuse_place(begin, texts_.size(), "bytes of text");
    const std::string_view rest = std::string_view(texts_).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }

  [[noreturn]] void refuse_place(std::size_t at, std::size_t size, const char* what) const {
    throw ConfigError(place_ + " is damaged: it points to " + std::to_string(at) + " of its " +
                      std::to_string(size) + " " + what);
  }

  std::vector<Unit> units_;
  std::string texts_, place_;
};

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(const JsonView& json) {
  return std::make_unique<Precompiled>(json);
}

}  // namespace accelerate::detail
