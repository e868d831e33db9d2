#include "accelerate/transformers/tokenizers/regex/translation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "accelerate/transformers/tokenizers/regex/class_parser.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

struct Flags {
  bool ignores_case = false, dot_is_all = false, is_spaced = false;
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : source_(pattern) {}

  Translation run_clusters() {
    put_all(grapheme_cluster());
    flush(-1);
    return std::move(translation_);
  }

  Translation run() {
    alternation({});
    if (!source_.is_done()) source_.refuse("a ')' that closes nothing");
    flush(-1);
    return std::move(translation_);
  }

 private:
  static constexpr int kDeepest = 200, kMostSets = 1000;

  // Translates up to the ')' that closes this group, or to the end.
  void alternation(Flags flags) {
    if (++depth_ > kDeepest) source_.refuse("more than 200 groups within each other");
    bool is_begin = true;
    int closes = 0;
    while (!source_.is_done() && source_.peek() != U')') {
      if (flags.is_spaced && skip_blank()) continue;
      if (source_.take("(?#")) {
        skip_comment();
      } else if (const auto changed = inline_flags(flags)) {
        if (!is_begin)
          source_.refuse("flags that change within a group; write them at its beginning");
        flags = *changed;
        put("(?:");
        ++closes;
        continue;
      } else if (source_.take("|")) {
        put("|");
        last_letter_ = 0;
      } else {
        item(flags);
      }
      is_begin = false;
    }
    for (; closes > 0; --closes) put(")");
    --depth_;
  }

  bool skip_blank() {
    if (source_.peek() == U'#') {
      while (!source_.is_done() && source_.next() != U'\n') {
      }
      return true;
    }
    return source_.take(" ") || source_.take("\t") || source_.take("\n") || source_.take("\r");
  }

  void skip_comment() {
    while (source_.next() != U')') {
    }
  }

  // Reads (?i) and the like, which have no group of their own; nullopt if none stands here.
  std::optional<Flags> inline_flags(const Flags& flags) {
    const auto begin = source_.place();
    if (!source_.take("(?")) return std::nullopt;
    Flags changed = flags;
    if (read_flags(changed) && source_.take(")")) return changed;
    source_.go_back(begin);
    return std::nullopt;
  }

  bool read_flags(Flags& flags) {
    for (bool value = true, any = false;;) {
      if (source_.take("-"))
        value = false;
      else if (source_.take("i"))
        flags.ignores_case = value;
      else if (source_.take("m"))
        flags.dot_is_all = value;
      else if (source_.take("x"))
        flags.is_spaced = value;
      else
        return any;
      any = true;
    }
  }

  void item(const Flags& flags) {
    const auto before = translation_.parts.size();
    const auto text_before = text_.size();
    const bool repeats = atom(flags);
    if (is_quantifier()) {
      if (!repeats) source_.refuse("a repetition of what has no width");
      last_letter_ = 0;
      quantifier(before, text_before);
    }
  }

  // Returns whether the atom may be repeated.
  bool atom(const Flags& flags) {
    if (source_.peek() == U'(') return group(flags);
    if (is_quantifier()) source_.refuse("a repetition of nothing");
    if (source_.take("\\y") || source_.take("\\Y")) {
      put(source_.previous() == U'y' ? "(?!" : "(?=");
      put_continuing();
      put(")");
      last_letter_ = 0;
      return false;
    }
    if (const auto anchor = anchor_at_source()) {
      put_all(*anchor);
      last_letter_ = 0;
      return false;
    }
    if (source_.take("\\R")) {
      put("(?>");
      put_set(CharacterSet(U'\r'));
      put_set(CharacterSet(U'\n'));
      put("|");
      put_set(CharacterSet(U'\n', U'\r').add(CharacterSet(0x85)).add({0x2028, 0x2029}));
      put(")");
    } else if (source_.take("\\X")) {
      put("(?>");
      put_set(CharacterSet::all());
      put_continuing();
      put("*)");
    } else if (source_.take(".")) {
      put_set(flags.dot_is_all ? CharacterSet::all() : CharacterSet(U'\n').inverted());
    } else if (source_.peek() == U'[') {
      put_set(read_class(source_, flags.ignores_case));
    } else if (auto set = read_escaped_set(source_, Place::outside)) {
      put_set(std::move(*set));
    } else {
      literal(source_.character(Place::outside), flags.ignores_case);
      return true;
    }
    last_letter_ = 0;
    return true;
  }

  void literal(char32_t c, bool ignores_case) {
    if (!ignores_case) return put_set(CharacterSet(c));
    if (c >= 0x80) source_.refuse("a character beyond ASCII where case is ignored");
    const char32_t letter = c | 0x20;
    // Where case is ignored, ß and ﬁ are equal to two adjacent letters.
    for (const std::u32string_view pair : {U"ss", U"st", U"ff", U"fi", U"fl"}) {
      if (last_letter_ == pair[0] && letter == pair[1])
        source_.refuse("'ss', 'st', 'ff', 'fi' or 'fl' where case is ignored");
    }
    last_letter_ = letter;
    put_set(with_other_case(CharacterSet(c)));
  }

  bool group(const Flags& flags) {
    Flags inner = flags;
    last_letter_ = 0;
    const bool repeats = begin_group(inner);
    alternation(inner);
    if (!source_.take(")")) source_.refuse("a '(' that is not closed");
    put(")");
    last_letter_ = 0;
    return repeats;
  }

  // Returns whether the group may be repeated. No group captures, as nothing refers to a group.
  bool begin_group(Flags& flags) {
    for (const char* const around : {"(?=", "(?!", "(?<=", "(?<!"}) {
      if (source_.take(around)) {
        put(around);
        return false;
      }
    }
    if (source_.take("(?:") || source_.take("(?>")) {
      put(source_.previous() == U'>' ? "(?>" : "(?:");
    } else if (source_.take("(?<")) {
      while (source_.next() != U'>') {
      }
      put("(?:");
    } else if (source_.take("(?")) {
      if (!read_flags(flags) || !source_.take(":"))
        source_.refuse("a group of a kind that is unknown here");
      put("(?:");
    } else {
      source_.next();
      put("(?:");
    }
    return true;
  }

  using Spelling = std::vector<std::pair<std::string_view, std::optional<CharacterSet>>>;

  std::optional<Spelling> anchor_at_source() {
    const CharacterSet line_end(U'\n');
    if (source_.take("\\A")) return Spelling{{"\\A", {}}};
    if (source_.take("\\z")) return Spelling{{"\\z", {}}};
    if (source_.take("\\Z")) return Spelling{{"(?=", line_end}, {"?\\z)", {}}};
    if (source_.take("^")) return Spelling{{"(?:\\A|(?<=", line_end}, {")(?!\\z))", {}}};
    if (source_.take("$")) return Spelling{{"(?:\\z|(?=", line_end}, {"))", {}}};
    const bool is_edge = source_.take("\\b");
    if (!is_edge && !source_.take("\\B")) return std::nullopt;
    const CharacterSet word = hidden_set(HiddenSet::word);
    const std::string_view first = is_edge ? ")(?!" : ")(?=";
    const std::string_view second = is_edge ? ")(?=" : ")(?!";
    return Spelling{{"(?:(?<=", word}, {first, word}, {")|(?<!", word}, {second, word}, {"))", {}}};
  }

  // An extended grapheme cluster, by the table 1c of Unicode Standard Annex 29.
  static Spelling grapheme_cluster() {
    const auto set = [](HiddenSet name) { return hidden_set(name); };
    const CharacterSet joiner(0x200D), indicator(0x1F1E6, 0x1F1FF),
        other(set(HiddenSet::control).inverted());
    const CharacterSet open = open_syllables(), pictograph = set(HiddenSet::pictograph);
    const CharacterSet closed = CharacterSet(0xAC00, 0xD7A3).common_with(open.inverted());
    const CharacterSet extend = set(HiddenSet::extend);
    const CharacterSet before_joiner = extend.common_with(set(HiddenSet::spacing).inverted());
    const CharacterSet lead = set(HiddenSet::lead), vowel = set(HiddenSet::vowel),
                       trail = set(HiddenSet::trail);
    return {{"(?>", CharacterSet(U'\r')},
            {"", CharacterSet(U'\n')},
            {"|", set(HiddenSet::control)},
            {"|", set(HiddenSet::prepend)},
            {"*(?:", lead},
            {"*(?:", vowel},
            {"+|", open},
            {"", vowel},
            {"*|", closed},
            {")", trail},
            {"*|", lead},
            {"+|", trail},
            {"+|", indicator},
            {"{2}|", pictograph},
            {"(?:", before_joiner},
            {"*", joiner},
            {"", pictograph},
            {")*|", other},
            {")", extend},
            {"*)", {}}};
  }

  // The syllables of Hangul without a last consonant.
  static CharacterSet open_syllables() {
    std::vector<CodeRange> ranges;
    for (char32_t c = 0xAC00; c <= 0xD7A3; c += 28) ranges.push_back({c, c});
    return CharacterSet(std::move(ranges));
  }

  bool is_quantifier() {
    if (source_.is_done()) return false;
    const char32_t c = source_.peek();
    if (c == U'*' || c == U'+' || c == U'?') return true;
    return c == U'{' && read_interval(/*takes=*/false).has_value();
  }

  // Returns {n}, {n,}, {,m} or {n,m} in PCRE2's spelling, and moves past it if `takes`.
  std::optional<std::string> read_interval(bool takes) {
    const auto begin = source_.place();
    source_.next();
    const std::string low = digits();
    const bool has_comma = source_.take(",");
    const std::string high = has_comma ? digits() : low;
    const bool is_interval = source_.take("}") && (!low.empty() || !high.empty());
    if (!is_interval || !takes) source_.go_back(begin);
    if (!is_interval) return std::nullopt;
    return "{" + (low.empty() ? "0" : low) + (has_comma ? "," + high : "") + "}";
  }

  std::string digits() {
    std::string found;
    while (!source_.is_done() && U'0' <= source_.peek() && source_.peek() <= U'9') {
      found.push_back(static_cast<char>(source_.next()));
    }
    return found;
  }

  void quantifier(std::size_t parts_before, std::size_t text_before) {
    if (source_.peek() == U'{') {
      put(*read_interval(/*takes=*/true));
      if (source_.take("+")) {
        // After an interval '+' is not possessive: it repeats the interval.
        insert("(?:", parts_before, text_before);
        put(")+");
      } else if (!source_.is_done() && source_.peek() == U'?') {
        source_.refuse("'?' behind '{…}'");
      }
    } else {
      put(to_utf8(source_.next()));
      if (source_.take("?"))
        put("?");
      else if (source_.take("+"))
        put("+");
    }
    if (is_quantifier())
      source_.refuse("a repetition of a repetition; write (?:…) around the inner one");
  }

  void put(std::string_view text) { text_ += text; }

  void put_set(CharacterSet set) {
    const auto known = std::ranges::find(translation_.sets, set);
    const auto index = static_cast<int>(known - translation_.sets.begin());
    if (known == translation_.sets.end()) {
      if (index == kMostSets) source_.refuse("more than 1,000 different sets of characters");
      translation_.sets.push_back(std::move(set));
    }
    flush(index);
  }

  void put_continuing() {
    translation_.has_continuing = true;
    flush(Translation::kContinuing);
  }

  void put_all(const Spelling& spelling) {
    for (const auto& [text, set] : spelling) {
      put(text);
      if (set) put_set(*set);
    }
  }

  void flush(int set) { translation_.parts.push_back({std::exchange(text_, {}), set}); }

  // Inserts `text` at an earlier place: where there were this many parts, and this much text after
  // them.
  void insert(std::string_view text, std::size_t parts_before, std::size_t text_before) {
    std::string& into =
        parts_before < translation_.parts.size() ? translation_.parts[parts_before].text : text_;
    into.insert(text_before, text);
  }

  PatternSource source_;
  Translation translation_;
  std::string text_;
  int depth_ = 0;
  // The letter directly before, where case is ignored; 0 if there is none.
  char32_t last_letter_ = 0;
};

}  // namespace

Translation translated_clusters() {
  return Translator("").run_clusters();
}

Translation translate(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace accelerate::detail
