#include "accelerate/transformers/tokenizers/processors/post_processor.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/transformers/tokenizers/encoding_parts.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

struct SpecialToken {
  std::vector<std::uint32_t> ids;
  std::vector<std::string> tokens;
};

Encoding encoding_of(const SpecialToken& special, std::uint32_t type_id) {
  const std::size_t count = special.ids.size();
  return {.ids = special.ids,
          .type_ids = std::vector<std::uint32_t>(count, type_id),
          .tokens = special.tokens,
          .offsets = std::vector<Offsets>(count),
          .words = std::vector<std::int32_t>(count, kNone),
          .sequences = std::vector<std::int32_t>(count, kNone),
          .special_tokens_mask = std::vector<std::uint8_t>(count, 1),
          .attention_mask = std::vector<std::uint8_t>(count, 1),
          .overflowing = {}};
}

// Inserts `special` before token `at`.
void insert(Encoding& encoding, std::size_t at, const SpecialToken& special,
            std::uint32_t type_id) {
  const std::size_t count = special.ids.size();
  const auto place = [&](auto& values) { return values.begin() + static_cast<std::ptrdiff_t>(at); };
  const auto put = [&](auto& values, auto value) { values.insert(place(values), count, value); };
  encoding.ids.insert(place(encoding.ids), special.ids.begin(), special.ids.end());
  encoding.tokens.insert(place(encoding.tokens), special.tokens.begin(), special.tokens.end());
  put(encoding.type_ids, type_id);
  put(encoding.offsets, Offsets{});
  put(encoding.words, kNone);
  put(encoding.sequences, kNone);
  put(encoding.special_tokens_mask, std::uint8_t{1});
  put(encoding.attention_mask, std::uint8_t{1});
}

void set_type(Encoding& encoding, std::uint32_t type_id) {
  std::fill(encoding.type_ids.begin(), encoding.type_ids.end(), type_id);
}

// A part of a template: a special token, or text 0 or 1.
struct Piece {
  int text = -1;  // -1: a special token
  std::uint32_t type_id = 0;
  std::string token;
};

class Template : public PostProcessor {
 public:
  explicit Template(const JsonView& json)
      : single_(read(json.at("single"))), pair_(read(json.at("pair"))), place_(json.place()) {
    const JsonView tokens = json.at("special_tokens");
    for (const auto& [name, value] : tokens.map()) {
      specials_[std::string(name)] =
          read_special(JsonView(value, tokens.place() + "." + std::string(name)));
    }
    for (const auto* pieces : {&single_, &pair_}) {
      for (const Piece& piece : *pieces) check(json, piece);
    }
    has_text_once_ = std::ranges::count(single_, 0, &Piece::text) == 1;
  }

  [[nodiscard]] std::size_t added(bool is_pair) const override {
    std::size_t count = 0;
    for (const Piece& piece : is_pair ? pair_ : single_) {
      if (piece.text < 0) count += specials_.at(piece.token).ids.size();
    }
    return count;
  }

  void process(std::vector<Encoding>& texts, bool adds_special_tokens) const override {
    if (texts.size() == 1 && texts[0].overflowing.empty() && has_text_once_) {
      if (adds_special_tokens) reserve(texts[0], texts[0].size() + added(/*is_pair=*/false));
      return surround(texts[0], adds_special_tokens);
    }
    std::vector<Encoding> out;
    const auto& pieces = texts.size() > 1 ? pair_ : single_;
    for (auto piece = pieces.begin(); piece != pieces.end(); ++piece) {
      const auto is_same = [&](const Piece& later) { return later.text == piece->text; };
      if (piece->text >= 0) {
        Encoding& text = text_of(texts, static_cast<std::size_t>(piece->text));
        const bool comes_again = std::any_of(piece + 1, pieces.end(), is_same);
        out.push_back(comes_again ? text : std::move(text));
        set_type(out.back(), piece->type_id);
      } else if (adds_special_tokens) {
        out.push_back(encoding_of(specials_.at(piece->token), piece->type_id));
      }
    }
    texts = std::move(out);
  }

 private:
  // Another processor of a sequence may have dropped a text.
  [[nodiscard]] Encoding& text_of(std::vector<Encoding>& texts, std::size_t number) const {
    if (number < texts.size()) return texts[number];
    throw ConfigError(place_ + " needs text " + std::string(number == 0 ? "A" : "B") +
                      ", which the post-processor before it has dropped");
  }

  static std::vector<Piece> read(const JsonView& json) {
    std::vector<Piece> pieces;
    json.each([&](const JsonView& item) {
      if (const auto text = item.find("Sequence")) {
        const std::string_view name = text->at("id").text();
        if (name != "A" && name != "B")
          text->refuse("names the text '" + std::string(name) + "'; allowed are A and B");
        pieces.push_back({name == "A" ? 0 : 1, text->at("type_id").id(), ""});
      } else {
        const JsonView special = item.at("SpecialToken");
        pieces.push_back({-1, special.at("type_id").id(), std::string(special.at("id").text())});
      }
    });
    return pieces;
  }

  static SpecialToken read_special(const JsonView& json) {
    SpecialToken special;
    json.at("ids").each([&](const JsonView& id) { special.ids.push_back(id.id()); });
    json.at("tokens").each(
        [&](const JsonView& token) { special.tokens.emplace_back(token.text()); });
    if (special.ids.size() != special.tokens.size())
      json.refuse("has another number of ids than of tokens");
    return special;
  }

  void check(const JsonView& json, const Piece& piece) const {
    if (piece.text < 0 && !specials_.contains(piece.token)) {
      json.refuse("uses the special token '" + piece.token + "', which its special_tokens lack");
    }
    if (&piece >= single_.data() && &piece < single_.data() + single_.size() && piece.text == 1) {
      json.refuse("uses the second text in the template of a single one");
    }
  }

  // Does what process() does to one text, without copying it.
  void surround(Encoding& text, bool adds_special_tokens) const {
    std::size_t at = 0;
    for (const Piece& piece : single_) {
      if (piece.text == 0) {
        std::fill(text.type_ids.begin() + static_cast<std::ptrdiff_t>(at), text.type_ids.end(),
                  piece.type_id);
        at = text.size();
      } else if (adds_special_tokens) {
        const SpecialToken& special = specials_.at(piece.token);
        insert(text, at, special, piece.type_id);
        at += special.ids.size();
      }
    }
  }

  std::vector<Piece> single_, pair_;
  bool has_text_once_ = false;
  std::map<std::string, SpecialToken, std::less<>> specials_;
  std::string place_;
};

SpecialToken read_named(const JsonView& json, std::string_view key) {
  const JsonView pair = json.at(key);
  SpecialToken special;
  std::vector<JsonView> parts;
  pair.each([&](const JsonView& part) { parts.push_back(part); });
  if (parts.size() != 2) pair.refuse("is not a pair of a token and its id");
  return {{parts[1].id()}, {std::string(parts[0].text())}};
}

// Moves the offsets of tokens so that they exclude the blanks at the tokens' ends.
void trim_offsets(Encoding& encoding, bool adds_space) {
  const auto is_blank = [](char32_t c) { return c == U'\u0120' || has(c, kWhiteSpace); };
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const std::u32string token = to_utf32(encoding.tokens[i]);
    auto& [begin, end] = encoding.offsets[i];
    auto leading =
        static_cast<std::uint32_t>(std::ranges::find_if_not(token, is_blank) - token.begin());
    const auto trailing = static_cast<std::uint32_t>(
        std::find_if_not(token.rbegin(), token.rend(), is_blank) - token.rbegin());
    if (leading > 0) {
      // A single blank is the one that was added: it is not in the text. Several blanks are.
      if ((i == 0 || begin == 0) && adds_space && leading == 1) leading = 0;
      begin = std::min(begin + leading, end);
    }
    if (trailing > 0 && end >= trailing) end = std::max(end - trailing, begin);
  }
  for (Encoding& part : encoding.overflowing) trim_offsets(part, adds_space);
}

// The post-processors of BERT and RoBERTa: [CLS] A [SEP] B [SEP] and <s> A </s></s> B </s>.
class Classifier : public PostProcessor {
 public:
  Classifier(const JsonView& json, bool is_roberta)
      : begin_(read_named(json, "cls")),
        end_(read_named(json, "sep")),
        is_roberta_(is_roberta),
        trims_(is_roberta && json.boolean("trim_offsets", true)),
        adds_space_(json.boolean("add_prefix_space", true)) {}

  [[nodiscard]] std::size_t added(bool is_pair) const override {
    if (!is_pair) return 2;
    return is_roberta_ ? 4 : 3;
  }

  void process(std::vector<Encoding>& texts, bool adds_special_tokens) const override {
    if (trims_) {
      for (Encoding& text : texts) trim_offsets(text, adds_space_);
    }
    for (std::size_t i = 0; i < texts.size() && is_roberta_; ++i) set_type(texts[i], 0);
    if (!adds_special_tokens) return;
    std::vector<Encoding> out;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto type_id = static_cast<std::uint32_t>(is_roberta_ ? 0 : i);
      set_types(texts[i], type_id);
      if (i == 0 || is_roberta_) out.push_back(encoding_of(i == 0 ? begin_ : end_, type_id));
      out.push_back(std::move(texts[i]));
      out.push_back(encoding_of(end_, type_id));
    }
    texts = std::move(out);
  }

 private:
  static void set_types(Encoding& encoding, std::uint32_t type_id) {
    set_type(encoding, type_id);
    for (Encoding& part : encoding.overflowing) set_type(part, type_id);
  }

  SpecialToken begin_, end_;
  bool is_roberta_, trims_, adds_space_;
};

class TrimOffsets : public PostProcessor {
 public:
  explicit TrimOffsets(const JsonView& json)
      : trims_(json.boolean("trim_offsets", true)),
        adds_space_(json.boolean("add_prefix_space", true)) {}
  [[nodiscard]] std::size_t added(bool) const override { return 0; }
  void process(std::vector<Encoding>& texts, bool) const override {
    for (Encoding& text : texts) {
      if (trims_) trim_offsets(text, adds_space_);
    }
  }

 private:
  bool trims_, adds_space_;
};

class Sequence : public PostProcessor {
 public:
  explicit Sequence(const JsonView& json) {
    json.at("processors").each([&](const JsonView& one) {
      all_.push_back(read_post_processor(one));
    });
  }
  [[nodiscard]] std::size_t added(bool is_pair) const override {
    std::size_t count = 0;
    for (const auto& one : all_) count += one->added(is_pair);
    return count;
  }
  void process(std::vector<Encoding>& texts, bool adds_special_tokens) const override {
    for (const auto& one : all_) one->process(texts, adds_special_tokens);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> all_;
};

}  // namespace

std::unique_ptr<PostProcessor> read_post_processor(const JsonView& json) {
  const std::string_view type = json.at("type").text();
  if (type == "TemplateProcessing") return std::make_unique<Template>(json);
  if (type == "BertProcessing") return std::make_unique<Classifier>(json, /*is_roberta=*/false);
  if (type == "RobertaProcessing") return std::make_unique<Classifier>(json, /*is_roberta=*/true);
  if (type == "ByteLevel") return std::make_unique<TrimOffsets>(json);
  if (type == "Sequence") return std::make_unique<Sequence>(json);
  json.refuse("is of the type '" + std::string(type) +
                  "'; allowed are BertProcessing, ByteLevel, RobertaProcessing, Sequence, "
                  "TemplateProcessing",
              error_name::kUnknownTokenizer);
}

}  // namespace accelerate::detail
