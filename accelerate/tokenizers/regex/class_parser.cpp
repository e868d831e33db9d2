#include "accelerate/tokenizers/regex/class_parser.h"

#include <array>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

std::string named_in_braces(PatternSource& source) {
  if (!source.take("{")) source.refuse("a property without '{…}'");
  std::string name;
  for (char32_t c = source.next(); c != U'}'; c = source.next()) append_utf8(name, c);
  return name;
}

CharacterSet read_property(PatternSource& source, bool inverts) {
  std::string name = named_in_braces(source);
  if (name.starts_with("^")) {
    inverts = !inverts;
    name.erase(0, 1);
  }
  const CharacterSet set = set_of_category(name);
  if (set.ranges().empty()) {
    source.refuse("the property '" + name +
                  "'; allowed are the general categories, as in \\p{L} or \\p{Uppercase_Letter}");
  }
  return inverts ? set.inverted() : set;
}

CharacterSet hexadecimal_digits() {
  return CharacterSet(U'0', U'9').add({U'A', U'F'}).add({U'a', U'f'});
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
    if (source_.take("[:")) return named_class();
    if (source_.peek() == U'[') return run();
    if (auto set = read_escaped_set(source_)) {
      if (ignores_case_) source_.refuse("a class with a property where case is ignored");
      return *set;
    }
    const char32_t first = source_.character();
    return checked(first, end_of_range(first));
  }

  char32_t end_of_range(char32_t first) {
    const auto before = source_.place();
    if (!source_.take("-")) return first;
    if (source_.peek() == U']' || source_.peek() == U'[') {
      source_.go_back(before);
      return first;
    }
    if (read_escaped_set(source_)) source_.refuse("a range that ends in a class");
    const char32_t last = source_.character();
    if (last < first) source_.refuse("a range that ends before it begins");
    return last;
  }

  CharacterSet checked(char32_t first, char32_t last) {
    if (ignores_case_ && last >= 0x80)
      source_.refuse("a character beyond ASCII where case is ignored");
    return {first, last};
  }

  CharacterSet named_class() {
    const bool inverts = source_.take("^");
    CharacterSet set;
    if (source_.take("space:]"))
      set = set_of(kRegexSpace);
    else if (source_.take("digit:]"))
      set = set_of(kRegexDigit);
    else if (source_.take("word:]"))
      set = set_of(kRegexWord);
    else if (source_.take("xdigit:]"))
      set = hexadecimal_digits();
    else
      source_.refuse("a class '[:…:]'; allowed are space, digit, word and xdigit");
    if (ignores_case_) source_.refuse("a class with a property where case is ignored");
    return inverts ? set.inverted() : set;
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

char32_t PatternSource::escaped() {
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
    if (value >= 0x80) refuse("'\\x' with a byte that is no character; write \\x{…}");
    return value;
  }
  const bool is_word =
      (U'a' <= c && c <= U'z') || (U'A' <= c && c <= U'Z') || (U'0' <= c && c <= U'9');
  if (is_word) refuse("'\\" + to_utf8(c) + "', which is unknown here");
  return c;
}

char32_t PatternSource::character() {
  const char32_t c = next();
  return c == U'\\' ? escaped() : c;
}

void PatternSource::refuse(const std::string& what) const {
  std::string pattern;
  for (const char32_t c : pattern_) append_utf8(pattern, c);
  throw ConfigError("the pattern '" + pattern + "' has, before its character " +
                    std::to_string(at_ + 1) + ", " + what);
}

std::optional<CharacterSet> read_escaped_set(PatternSource& source) {
  constexpr std::array<std::pair<std::string_view, Property>, 3> kProperties{
      {{"\\s", kRegexSpace}, {"\\d", kRegexDigit}, {"\\w", kRegexWord}}};
  for (const auto& [name, property] : kProperties) {
    if (source.take(name)) return set_of(property);
    if (source.take("\\" + std::string(1, static_cast<char>(name[1] - 32))))
      return set_of(property).inverted();
  }
  if (source.take("\\h")) return hexadecimal_digits();
  if (source.take("\\H")) return hexadecimal_digits().inverted();
  if (source.take("\\N")) return CharacterSet(U'\n').inverted();
  if (source.take("\\O")) return CharacterSet::all();
  if (source.take("\\p")) return read_property(source, /*inverts=*/false);
  if (source.take("\\P")) return read_property(source, /*inverts=*/true);
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
