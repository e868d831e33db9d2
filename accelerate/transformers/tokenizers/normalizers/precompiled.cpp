// SentencePiece's map of characters: a double array that finds what is replaced, and the
// replacements.
// Source: the Rust crate spm_precompiled, sentencepiece/src/normalizer.cc.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/tokenizers/normalizers/normalizer.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

std::string decoded(const JsonView& json) {
  try {
    return from_base64(json.text());
  } catch (const ConfigError&) {
    json.refuse("is not base64");
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
    find_kept();
  }

  // As in the original, a grapheme of up to five bytes is replaced as a whole. If the map knows
  // only its beginning, the rest is lost.
  void apply(AlignedText& text) const override {
    constexpr std::size_t kLongest = 5;
    const std::string_view view = text.view();
    Changes changes{view, {}, false};
    for (std::size_t begin = 0, end = 0; begin < view.size(); begin = end) {
      if (is_left_alone(view, begin)) {
        changes.keep(static_cast<unsigned char>(view[begin]));
        end = begin + 1;
        continue;
      }
      text.check_size(changes.all.size());
      end = end_of_grapheme(view, begin);
      if (const auto by =
              end - begin <= kLongest ? find(view.substr(begin, end - begin)) : std::nullopt) {
        changes.replace(begin, end, *by);
        continue;
      }
      for (std::size_t at = begin; at < end;) {
        const std::size_t first = at;
        const char32_t c = next_code_point(view, at);
        if (const auto by = find(view.substr(first, at - first)))
          changes.replace(first, at, *by);
        else
          changes.keep(c);
      }
    }
    if (changes.differs) text.transform(changes.all);
  }

 private:
  // Changes of a text, of which nothing is stored up to the first replacement.
  struct Changes {
    std::string_view view;
    std::vector<Change> all;
    bool differs = false;

    void keep(char32_t c) {
      if (differs) all.push_back({c, 0});
    }

    void replace(std::size_t begin, std::size_t end, std::string_view by) {
      if (!differs) {
        all.reserve(view.size());
        for (std::size_t at = 0; at < begin;) all.push_back({next_code_point(view, at), 0});
        differs = true;
      }
      const auto before = static_cast<int>(count_code_points(view.substr(begin, end - begin)));
      int after = 0;
      for (std::size_t at = 0; at < by.size(); ++after)
        all.push_back({next_code_point(by, at), after < before ? 0 : 1});
      if (after < before && !all.empty()) all.back().change -= before - after;
    }
  };

  // Whether a character of ASCII is a grapheme by itself, and the map does not know it.
  [[nodiscard]] bool is_left_alone(std::string_view view, std::size_t at) const {
    const auto byte = static_cast<unsigned char>(view[at]);
    const bool is_alone = at + 1 == view.size() || static_cast<unsigned char>(view[at + 1]) < 0x80;
    return byte < kept_.size() && kept_[byte] && is_alone;
  }

  // Finds the bytes that begin no key. CR may be of one grapheme with LF.
  void find_kept() {
    for (unsigned byte = 0; byte < kept_.size(); ++byte) {
      const std::size_t at = units_.empty() ? 0 : units_[0].offset() ^ byte;
      kept_[byte] = byte != '\r' && (units_.empty() || byte == 0 ||
                                     (at < units_.size() && units_[at].label() != byte));
    }
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
  std::array<bool, 128> kept_{};
  std::string texts_, place_;
};

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(const JsonView& json) {
  return std::make_unique<Precompiled>(json);
}

}  // namespace accelerate::detail
