#include "accelerate/transformers/tokenizers/regex/class_parser.h"

#include <array>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

// Reads the rest of \p{…}.
std::string name_in_braces(PatternSource& source) {
  std::string name;
  for (char32_t c = source.next(); c != U'}'; c = source.next()) append_utf8(name, c);
  return name;
}

// Returns the set of this name; each '^' before it stands for the opposite.
CharacterSet set_of_property(PatternSource& source, Place place, std::string_view name) {
  bool inverts = false;
  for (; name.starts_with("^"); name.remove_prefix(1)) inverts = !inverts;
  std::optional<CharacterSet> set = named_set(name);
  if (!set) {
    source.refuse("the property '" + std::string(name) +
                  "'; allowed are the general categories, scripts, blocks and binary properties of "
                  "Unicode, as in \\p{L}, \\p{Han}, \\p{InBasicLatin} and \\p{Alphabetic}");
  }
  if (place == Place::outside && set == named_set("word")) set = hidden_set(HiddenSet::word);
  return inverts ? set->inverted() : *set;
}

class ClassReader {
 public:
  ClassReader(PatternSource& source, bool ignores_case)
      : source_(source), ignores_case_(ignores_case) {}

  CharacterSet run() {
    if (++depth_ > 50) source_.refuse("more than 50 classes within each other");
    source_.take("[");
    const bool inverts = source_.take("^");
    std::optional<CharacterSet> common;
    CharacterSet set;
    for (bool is_first = true; !source_.take("]") || is_first_bracket(is_first, set);
         is_first = false) {
      if (source_.take("&&")) {
        common = common ? common->common_with(set) : set;
        set = {};
      } else {
        set.add(member());
      }
    }
    if (common) set = common->common_with(set);
    --depth_;
    if (ignores_case_) set = with_other_case(set);
    return inverts ? set.inverted() : set;
  }

 private:
  // A ']' directly after '[' stands for itself.
  static bool is_first_bracket(bool is_first, CharacterSet& set) {
    if (is_first) set.add(CharacterSet(U']'));
    return is_first;
  }

  CharacterSet member() {
    if (is_at_named_class()) return named_class();
    if (source_.peek() == U'[') return run();
    if (auto set = read_escaped_set(source_, Place::in_brackets)) {
      if (ignores_case_) source_.refuse("a class with a property where case is ignored");
      return *set;
    }
    const char32_t first = source_.character(Place::in_brackets);
    const auto behind = source_.place();
    if (!source_.take("-")) return checked(first, first);
    if (source_.peek() == U']' || source_.take("&&")) {
      source_.go_back(behind);  // The hyphen stands for itself.
      return checked(first, first);
    }
    if (is_at_named_class()) source_.refuse("a range that ends in a class");
    // As in the original, a character before a hyphen and a class in brackets vanishes with it.
    if (source_.peek() == U'[') return {};
    return checked(first, end_of_range(first));
  }

  char32_t end_of_range(char32_t first) {
    if (read_escaped_set(source_, Place::in_brackets))
      source_.refuse("a range that ends in a class");
    const char32_t last = source_.character(Place::in_brackets);
    if (last < first) source_.refuse("a range that ends before it begins");
    return last;
  }

  CharacterSet checked(char32_t first, char32_t last) {
    if (ignores_case_ && last >= 0x80)
      source_.refuse("a character beyond ASCII where case is ignored");
    return {first, last};
  }

  // "[:" begins a named class where ":]" comes before the next ']'.
  bool is_at_named_class() {
    const auto begin = source_.place();
    bool is_named = false;
    if (source_.take("[:")) {
      while (!is_named && !source_.is_done() && source_.peek() != U']') {
        is_named = source_.take(":]");
        if (!is_named) source_.next();
      }
    }
    source_.go_back(begin);
    return is_named;
  }

  CharacterSet named_class() {
    source_.take("[:");
    const bool inverts = source_.take("^");
    for (const std::string_view name :
         {"alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
          "space", "upper", "word", "xdigit"}) {
      if (!source_.take(std::string(name) + ":]")) continue;
      if (ignores_case_) source_.refuse("a class with a property where case is ignored");
      const CharacterSet set = named_set(name == "punct" ? "posixpunct" : name).value();
      return inverts ? set.inverted() : set;
    }
    source_.refuse(
        "a class '[:…:]'; allowed are alnum, alpha, ascii, blank, cntrl, digit, graph, lower, "
        "print, "
        "punct, space, upper, word and xdigit");
  }

  PatternSource& source_;
  bool ignores_case_;
  int depth_ = 0;
};

}  // namespace

PatternSource::PatternSource(std::string_view pattern) : pattern_(to_utf32(pattern)) {}

char32_t PatternSource::peek() const {
  if (is_done()) refuse("its end where more is needed");
  return pattern_[at_];
}

char32_t PatternSource::next() {
  const char32_t c = peek();
  ++at_;
  return c;
}

bool PatternSource::take(std::string_view text) {
  if (pattern_.size() - at_ < text.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (pattern_[at_ + i] != static_cast<unsigned char>(text[i])) return false;
  }
  at_ += text.size();
  return true;
}

char32_t PatternSource::hexadecimal(std::size_t least, std::size_t most) {
  char32_t value = 0;
  std::size_t count = 0;
  constexpr std::u32string_view kDigits = U"0123456789abcdefABCDEF";
  for (; count < most && !is_done(); ++count) {
    const std::size_t digit = kDigits.find(pattern_[at_]);
    if (digit == std::u32string_view::npos) break;
    value = value * 16 + static_cast<char32_t>(digit < 16 ? digit : digit - 6);
    ++at_;
  }
  if (count < least || value >= unicode::kLimit)
    refuse("a hexadecimal number that names no character");
  return value;
}

char32_t PatternSource::octal(char32_t first, std::size_t most) {
  char32_t value = first - U'0';
  for (; most > 0 && !is_done() && U'0' <= peek() && peek() <= U'7'; --most)
    value = value * 8 + (next() - U'0');
  if (value >= 0x80) refuse("an octal number of a byte that is not a character; write \\x{…}");
  return value;
}

char32_t PatternSource::escaped(Place place) {
  constexpr std::array<std::pair<char32_t, char32_t>, 7> kControls{
      {{U't', 9}, {U'n', 10}, {U'v', 11}, {U'f', 12}, {U'r', 13}, {U'a', 7}, {U'e', 27}}};
  const char32_t c = next();
  for (const auto& [letter, control] : kControls) {
    if (c == letter) return control;
  }
  if (c == U'u') return hexadecimal(4, 4);
  if (c == U'x' && take("{")) {
    const char32_t value = hexadecimal(1, 8);
    if (!take("}")) refuse("a '\\x{' that is not closed");
    return value;
  }
  if (c == U'x') {
    const char32_t value = hexadecimal(2, 2);
    if (value >= 0x80) refuse("'\\x' with a byte that is not a character; write \\x{…}");
    return value;
  }
  if (U'0' <= c && c <= U'7' && (c == U'0' || place == Place::in_brackets)) return octal(c, 2);
  if (place == Place::in_brackets && c == U'b') return 8;
  if (has_meaning(c, place)) refuse("'\\" + to_utf8(c) + "', which is unknown here");
  return c;
}

// Other letters that are escaped in vain stand for themselves, as in the original.
bool PatternSource::has_meaning(char32_t c, Place place) const {
  if (place == Place::in_brackets) return c == U'c' || c == U'C' || c == U'M';
  if (c == U'g' || c == U'k') return !is_done() && (peek() == U'<' || peek() == U'\'');
  return std::u32string_view(U"123456789cCGKM").find(c) != std::u32string_view::npos;
}

char32_t PatternSource::character(Place place) {
  const char32_t c = next();
  return c == U'\\' ? escaped(place) : c;
}

void PatternSource::refuse(const std::string& what) const {
  std::string pattern;
  for (const char32_t c : pattern_) append_utf8(pattern, c);
  throw ConfigError("the pattern '" + pattern + "' has, before its character " +
                    std::to_string(at_ + 1) + ", " + what);
}

std::optional<CharacterSet> read_escaped_set(PatternSource& source, Place place) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNames{{{"\\s", "space"},
                                                                                 {"\\S", "^space"},
                                                                                 {"\\d", "digit"},
                                                                                 {"\\D", "^digit"},
                                                                                 {"\\h", "xdigit"},
                                                                                 {"\\H", "^xdigit"},
                                                                                 {"\\w", "word"},
                                                                                 {"\\W", "^word"}}};
  for (const auto& [letter, name] : kNames) {
    if (source.take(letter)) return set_of_property(source, place, std::string(name));
  }
  if (source.take("\\p{")) return set_of_property(source, place, name_in_braces(source));
  if (source.take("\\P{")) return set_of_property(source, place, "^" + name_in_braces(source));
  if (place == Place::in_brackets) return std::nullopt;
  if (source.take("\\N")) return CharacterSet(U'\n').inverted();
  if (source.take("\\O")) return CharacterSet::all();
  return std::nullopt;
}

CharacterSet read_class(PatternSource& source, bool ignores_case) {
  return ClassReader(source, ignores_case).run();
}

CharacterSet with_other_case(const CharacterSet& set) {
  CharacterSet out = set;
  for (char32_t lower = U'a'; lower <= U'z'; ++lower) {
    CharacterSet forms = CharacterSet(lower).add(CharacterSet(lower - 32));
    if (lower == U's') forms.add(CharacterSet(0x17F));
    if (lower == U'k') forms.add(CharacterSet(0x212A));
    if (!forms.common_with(set).ranges().empty()) out.add(forms);
  }
  return out;
}

}  // namespace accelerate::detail
