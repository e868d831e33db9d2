// BERT's normalizer: removes control characters, puts spaces around CJK characters, strips accents
// and lowers capitals. It takes one pass over nearly all texts.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/normalizers/lowercase.h"
#include "accelerate/transformers/tokenizers/normalizers/normalizer.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

struct BertOptions {
  bool cleans, pads_cjk, strips_accents, lowers;
};

// Has no branch, so that the compiler can vectorize it.
char lower_ascii(char c) {
  const bool is_capital = static_cast<unsigned char>(c - 'A') < 26;
  return static_cast<char>(c + (is_capital ? 'a' - 'A' : 0));
}

// Writes the new text. Records origins only once a character has moved.
class Writer {
 public:
  explicit Writer(AlignedText& text) : source_(text) { out_.reserve(text.view().size() + 16); }

  void put(char32_t c, std::size_t begin, std::size_t end) {
    moves(width_of(c) != end - begin || out_.size() != begin);
    append_utf8(out_, c);
    if (is_moved_) origins_.insert(origins_.end(), width_of(c), source_.origin(begin, end));
  }
  void put_ascii(char c, std::size_t begin) {
    moves(out_.size() != begin);
    out_.push_back(c);
    if (is_moved_) origins_.push_back(source_.origin(begin, begin + 1));
  }
  // Appends ASCII text, in lower case if `lowers`.
  void put_run(std::string_view run, std::size_t begin, bool lowers) {
    moves(out_.size() != begin);
    const std::size_t before = out_.size();
    out_.append(run);
    for (std::size_t i = before; lowers && i < out_.size(); ++i) out_[i] = lower_ascii(out_[i]);
    for (std::size_t i = 0; is_moved_ && i < run.size(); ++i)
      origins_.push_back(source_.origin(begin + i, begin + i + 1));
  }
  void finish() {
    moves(out_.size() != source_.view().size());
    source_.assign(std::move(out_), std::move(origins_));
  }

 private:
  // Begins to record origins if `now`. The text written so far gets the origins of the source,
  // which an earlier normalizer may have changed.
  void moves(bool now) {
    if (is_moved_ || !now) return;
    is_moved_ = true;
    const std::vector<Span> all = source_.origins();
    origins_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(out_.size()));
  }

  AlignedText& source_;
  std::string out_;
  std::vector<Span> origins_;
  bool is_moved_ = false;
};

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertOptions& options) : options_(options) {}

  void apply(AlignedText& text) const override {
    if (options_.strips_accents && reorders_marks(text.view())) return apply_in_steps(text);
    Writer writer(text);
    const std::string_view view = text.view();
    for (std::size_t at = 0; at < view.size();) {
      const std::size_t begin = at;
      while (at < view.size() && view[at] >= 0x20 && view[at] < 0x7F) ++at;
      if (at > begin) {
        writer.put_run(view.substr(begin, at - begin), begin, options_.lowers);
      } else if (static_cast<unsigned char>(view[at]) < 0x80) {
        put_ascii(view[at++], begin, writer);
      } else {
        const char32_t c = next_code_point(view, at);
        put(c, begin, at, writer);
      }
    }
    writer.finish();
  }

 private:
  void put_ascii(char c, std::size_t begin, Writer& writer) const {
    const auto code = static_cast<char32_t>(c);
    if (options_.cleans && (code < 0x20 || code == 0x7F)) {
      if (has(code, kBertRemoved)) return;
      if (has(code, kBertToSpace)) c = ' ';
    }
    writer.put_ascii(c, begin);
  }

  void put(char32_t c, std::size_t begin, std::size_t end, Writer& writer) const {
    if (options_.cleans && has(c, kBertRemoved)) return;
    if (options_.cleans && has(c, kBertToSpace)) return writer.put(U' ', begin, end);
    const bool stands_alone = options_.pads_cjk && has(c, kBertCjk);
    if (stands_alone) writer.put(U' ', begin, end);
    put_plain(c, begin, end, writer);
    if (stands_alone) writer.put(U' ', begin, end);
  }

  void put_plain(char32_t c, std::size_t begin, std::size_t end, Writer& writer) const {
    const std::u32string itself(1, c);
    std::u32string_view parts = options_.strips_accents ? nfd_of(c) : std::u32string_view();
    std::u32string syllable;
    if (options_.strips_accents && parts.empty() && c >= 0xAC00 && c <= 0xD7A3) {
      syllable = jamo_of(c);
      parts = syllable;
    }
    if (parts.empty()) parts = itself;
    for (const char32_t part : parts) {
      if (options_.strips_accents && has(part, kBertMark)) continue;
      if (!options_.lowers) {
        writer.put(part, begin, end);
        continue;
      }
      each_lower(part, [&](char32_t lowered) { writer.put(lowered, begin, end); });
    }
  }

  static std::u32string jamo_of(char32_t c) {
    std::vector<Change> parts;
    normal_form(std::u32string(1, c), false, false, parts);
    std::u32string jamo;
    for (const Change& part : parts) jamo.push_back(part.c);
    return jamo;
  }

  // Whether the order of marks matters. Decomposition sorts marks, but nearly all marks that it
  // moves are dropped afterwards. A mark that stays must be put into order.
  static bool reorders_marks(std::string_view view) {
    for (std::size_t at = 0; at < view.size();) {
      if (static_cast<unsigned char>(view[at]) < 0xCC) {
        at += width_of(view[at]);
        continue;
      }
      const char32_t c = next_code_point(view, at);
      if (combining_class(c) != 0 && !has(c, kBertMark)) return true;
    }
    return false;
  }

  void apply_in_steps(AlignedText& text) const {
    if (options_.cleans) {
      text.filter([](char32_t c) { return !has(c, kBertRemoved); });
      text.map([](char32_t c) { return has(c, kBertToSpace) ? U' ' : c; });
    }
    if (options_.pads_cjk) pad_cjk(text);
    std::vector<Change> changes;
    normal_form(to_utf32(text.view()), false, false, changes);
    text.transform(changes);
    text.filter([](char32_t c) { return !has(c, kBertMark); });
    if (options_.lowers) lowercase(text);
  }

  static void pad_cjk(AlignedText& text) {
    std::vector<Change> changes;
    for (const char32_t c : to_utf32(text.view())) {
      if (!has(c, kBertCjk)) {
        changes.push_back({c, 0});
      } else {
        changes.insert(changes.end(), {{U' ', 0}, {c, 1}, {U' ', 1}});
      }
    }
    text.transform(changes);
  }

  BertOptions options_;
};

}  // namespace

std::unique_ptr<Normalizer> read_bert_normalizer(const JsonView& json) {
  const bool lowers = json.boolean("lowercase", true);
  return std::make_unique<BertNormalizer>(
      BertOptions{.cleans = json.boolean("clean_text", true),
                  .pads_cjk = json.boolean("handle_chinese_chars", true),
                  .strips_accents = json.boolean("strip_accents", lowers),
                  .lowers = lowers});
}

}  // namespace accelerate::detail
