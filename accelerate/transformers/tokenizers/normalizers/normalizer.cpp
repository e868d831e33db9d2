#include "accelerate/transformers/tokenizers/normalizers/normalizer.h"

#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/error_name.h"
#include "accelerate/transformers/tokenizers/normalizers/lowercase.h"
#include "accelerate/transformers/tokenizers/text/byte_letters.h"
#include "accelerate/transformers/tokenizers/text/pattern.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

bool is_ascii(std::string_view text) {
  for (const char byte : text) {
    if (static_cast<unsigned char>(byte) >= 0x80) return false;
  }
  return true;
}

struct NormalForm : Normalizer {
  NormalForm(bool compatible, bool composed) : is_compatible(compatible), is_composed(composed) {}
  void apply(AlignedText& text) const override {
    if (is_ascii(text.view())) return;
    std::vector<Change> changes;
    normal_form(to_utf32(text.view()), is_compatible, is_composed, changes);
    text.transform(changes);
  }
  bool is_compatible, is_composed;
};

struct Nmt : Normalizer {
  void apply(AlignedText& text) const override {
    text.filter([](char32_t c) { return !has(c, kNmtRemoved); });
    text.map([](char32_t c) { return has(c, kNmtToSpace) ? U' ' : c; });
  }
};

struct Lowercase : Normalizer {
  void apply(AlignedText& text) const override { lowercase(text); }
};

struct Strip : Normalizer {
  explicit Strip(const JsonView& json)
      : left(json.boolean("strip_left", true)), right(json.boolean("strip_right", true)) {}
  void apply(AlignedText& text) const override { text.strip(left, right); }
  bool left, right;
};

struct StripAccents : Normalizer {
  void apply(AlignedText& text) const override {
    text.filter([](char32_t c) { return !has(c, kCombiningMark); });
  }
};

struct Replace : Normalizer {
  explicit Replace(const JsonView& json)
      : pattern(json.at("pattern")), content(json.at("content").text()) {}
  void apply(AlignedText& text) const override {
    text.replace(pattern.find_all(text.view()), content);
  }
  Pattern pattern;
  std::string content;
};

struct Prepend : Normalizer {
  explicit Prepend(const JsonView& json) : content(json.at("prepend").text()) {}
  void apply(AlignedText& text) const override { text.prepend(content); }
  std::string content;
};

struct ByteLetters : Normalizer {
  void apply(AlignedText& text) const override {
    std::vector<Change> changes;
    for (const char byte : text.view()) {
      changes.push_back(
          {byte_letters()[static_cast<unsigned char>(byte)], begins_character(byte) ? 0 : 1});
    }
    text.transform(changes);
  }
};

struct Sequence : Normalizer {
  explicit Sequence(const JsonView& json) {
    json.at("normalizers").each([&](const JsonView& one) { all.push_back(read_normalizer(one)); });
  }
  void apply(AlignedText& text) const override {
    for (const auto& one : all) one->apply(text);
  }
  std::vector<std::unique_ptr<Normalizer>> all;
};

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const JsonView& json) {
  const std::string_view type = json.at("type").text();
  if (type == "BertNormalizer") return read_bert_normalizer(json);
  if (type == "NFC") return std::make_unique<NormalForm>(false, true);
  if (type == "NFD") return std::make_unique<NormalForm>(false, false);
  if (type == "NFKC") return std::make_unique<NormalForm>(true, true);
  if (type == "NFKD") return std::make_unique<NormalForm>(true, false);
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "Strip") return std::make_unique<Strip>(json);
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Replace") return std::make_unique<Replace>(json);
  if (type == "Prepend") return std::make_unique<Prepend>(json);
  if (type == "ByteLevel") return std::make_unique<ByteLetters>();
  if (type == "Precompiled") return read_precompiled(json);
  if (type == "Sequence") return std::make_unique<Sequence>(json);
  json.refuse("is of the type '" + std::string(type) +
                  "'; allowed are BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, "
                  "Precompiled, "
                  "Prepend, Replace, Sequence, Strip, StripAccents",
              error_name::kUnknownTokenizer);
}

}  // namespace accelerate::detail
