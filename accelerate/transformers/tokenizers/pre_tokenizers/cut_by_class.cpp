// Pre-tokenizers that look at one character at a time.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "accelerate/transformers/tokenizers/pre_tokenizers/behavior.h"
#include "accelerate/transformers/tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

// Calls cut(range, out) for every piece; the ranges that it appends take the piece's place.
template <typename Cut>
void cut_each(Pieces& pieces, const Cut& cut) {
  std::vector<Span> out;
  out.reserve(pieces.ranges.size() + pieces.text.view().size() / 4);
  for (const Span& range : pieces.ranges) cut(range, out);
  pieces.ranges = std::move(out);
}

// Cuts by the kind of each character. Kind 0 is dropped, a run of one odd kind stays together, and
// a character of an even kind above 0 stands alone.
template <typename KindOf>
class CutByKind : public PreTokenizer {
 public:
  explicit CutByKind(KindOf kind_of) : kind_of_(std::move(kind_of)) {
    for (char32_t c = 0; c < ascii_.size(); ++c) ascii_[c] = static_cast<std::uint8_t>(kind_of_(c));
  }

  void apply(Pieces& pieces) const override {
    const std::string_view view = pieces.text.view();
    cut_each(pieces, [&](const Span& range, std::vector<Span>& out) { cut(view, range, out); });
  }

 private:
  void cut(std::string_view view, const Span& range, std::vector<Span>& out) const {
    int before = 0;
    for (std::size_t at = range.begin; at < range.end;) {
      const auto begin = static_cast<std::uint32_t>(at);
      const int kind = next_kind(view, at);
      if (kind % 2 == 1 && kind == before) {
        out.back().end = static_cast<std::uint32_t>(at);
      } else if (kind != 0) {
        out.push_back({begin, static_cast<std::uint32_t>(at)});
      }
      before = kind;
    }
  }

  // Returns the kind of the character at `at`, and moves `at` past it.
  [[nodiscard]] int next_kind(std::string_view view, std::size_t& at) const {
    const auto byte = static_cast<unsigned char>(view[at]);
    if (byte >= ascii_.size()) return kind_of_(next_code_point(view, at));
    ++at;
    return ascii_[byte];
  }

  KindOf kind_of_;
  std::array<std::uint8_t, 128> ascii_{};
};

template <typename KindOf>
std::unique_ptr<PreTokenizer> cut_by_kind(KindOf kind_of) {
  return std::make_unique<CutByKind<KindOf>>(std::move(kind_of));
}

constexpr auto kBertKind = [](char32_t c) {
  const std::uint32_t properties = properties_of(c);
  if ((properties & kBertSpace) != 0) return 0;
  return (properties & kBertPunctuation) != 0 ? 2 : 1;
};

constexpr auto kWhitespaceKind = [](char32_t c) {
  const std::uint32_t properties = properties_of(c);
  if ((properties & kWordOfWhitespace) != 0) return 1;
  return (properties & kSpaceOfWhitespace) != 0 ? 0 : 3;
};

// Cuts at every character that has a property.
class CutAtProperty : public PreTokenizer {
 public:
  CutAtProperty(Property property, Behavior behavior) : property_(property), behavior_(behavior) {}

  void apply(Pieces& pieces) const override {
    const std::string_view view = pieces.text.view();
    cut_each(pieces, [&](const Span& range, std::vector<Span>& out) {
      std::vector<CutPart> parts;
      for (std::size_t at = range.begin; at < range.end;) {
        const auto begin = static_cast<std::uint32_t>(at);
        const bool is_delimiter = has(next_code_point(view, at), property_);
        const auto end = static_cast<std::uint32_t>(at);
        if (!is_delimiter && !parts.empty() && !parts.back().is_delimiter) {
          parts.back().range.end = end;
        } else {
          parts.push_back({{begin, end}, is_delimiter});
        }
      }
      append_pieces(parts, behavior_, out);
    });
  }

 private:
  Property property_;
  Behavior behavior_;
};

// As in the original, characters before the first that has a script are dropped.
class UnicodeScripts : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    constexpr std::uint8_t kAny = 0;
    const std::string_view view = pieces.text.view();
    cut_each(pieces, [&](const Span& range, std::vector<Span>& out) {
      std::uint8_t before = kAny;
      for (std::size_t at = range.begin; at < range.end;) {
        const auto begin = static_cast<std::uint32_t>(at);
        const std::uint8_t script = script_of(next_code_point(view, at));
        if (script != kAny && script != before) {
          out.push_back({begin, begin});
          before = script;
        }
        if (before != kAny) out.back().end = static_cast<std::uint32_t>(at);
      }
    });
  }
};

}  // namespace

std::unique_ptr<PreTokenizer> read_cut_by_class(const JsonView& json) {
  const std::string_view type = json.at("type").text();
  if (type == "BertPreTokenizer") return cut_by_kind(kBertKind);
  if (type == "Whitespace") return cut_by_kind(kWhitespaceKind);
  if (type == "WhitespaceSplit")
    return cut_by_kind([](char32_t c) { return has(c, kWhiteSpace) ? 0 : 1; });
  if (type == "CharDelimiterSplit") {
    const JsonView delimiter = json.at("delimiter");
    const std::u32string text = to_utf32(delimiter.text());
    if (text.size() != 1)
      delimiter.refuse("is '" + std::string(delimiter.text()) + "'; allowed is one character");
    return cut_by_kind([c = text[0]](char32_t other) { return other == c ? 0 : 1; });
  }
  if (type == "Punctuation") {
    const auto behavior = json.find("behavior");
    return std::make_unique<CutAtProperty>(
        kPunctuation, behavior ? read_behavior(*behavior) : Behavior::isolated);
  }
  if (type == "Digits") {
    return std::make_unique<CutAtProperty>(kNumeric, json.boolean("individual_digits", false)
                                                         ? Behavior::isolated
                                                         : Behavior::contiguous);
  }
  if (type == "UnicodeScripts") return std::make_unique<UnicodeScripts>();
  return nullptr;
}

}  // namespace accelerate::detail
