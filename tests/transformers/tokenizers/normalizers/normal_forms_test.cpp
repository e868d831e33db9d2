#include "accelerate/transformers/tokenizers/normalizers/normalizer.h"

#include <gtest/gtest.h>

#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/transformers/tokenizers/unicode/unicode_golden.h"

namespace accelerate::detail {

bool operator==(const Change& a, const Change& b) {
  return a.c == b.c && a.change == b.change;
}
void PrintTo(const Change& change, std::ostream* out) {
  *out << "U+" << std::hex << static_cast<unsigned>(change.c) << std::dec << " " << change.change;
}

namespace {

using Changes = std::vector<Change>;

struct Form {
  bool compatible, composed;
};
constexpr Form kNfd{false, false}, kNfc{false, true}, kNfkd{true, false};

Changes normalized(std::u32string_view text, Form form) {
  Changes out;
  normal_form(text, form.compatible, form.composed, out);
  return out;
}

Form form_named(const std::string& name) {
  return {name.find('K') != std::string::npos, name.back() == 'C'};
}

std::u32string from_hex(const std::string& numbers) {
  std::u32string text;
  std::istringstream in(numbers);
  for (unsigned number = 0; in >> std::hex >> number;) text.push_back(number);
  return text;
}

std::string to_hex(const Changes& changes) {
  std::ostringstream out;
  for (const Change& each : changes) {
    out << (&each == changes.data() ? "" : " ") << std::hex << static_cast<unsigned>(each.c);
  }
  return out.str();
}

/// The origin of each character as "begin-end", by the rules of the original: an inserted one has
/// the origin of the character before.
std::string origins(const Changes& changes) {
  std::ostringstream out;
  int at = 0;
  for (const Change& each : changes) {
    const int from = each.change > 0 ? at - 1 : at;
    out << (&each == changes.data() ? "" : " ") << (from < 0 ? 0 : from) << "-" << from + 1;
    if (each.change <= 0) at += 1 - each.change;
  }
  return out.str();
}

TEST(NormalForms, RandomTextsBecomeWhatTheOriginalMakesOfThem) {
  const auto rows = testing::unicode_rows('\t', 4);
  ASSERT_GT(rows.size(), 500U);
  for (const auto& row : rows) {
    const auto made = normalized(from_hex(row[1]), form_named(row[0]));
    EXPECT_EQ(to_hex(made), row[2]) << row[0] << " of " << row[1];
    EXPECT_EQ(origins(made), row[3]) << row[0] << " of " << row[1];
  }
}

TEST(NormalForms, ADecompositionInsertsAllButItsFirstCharacter) {
  EXPECT_EQ(normalized(U"\u1EA5", kNfd), (Changes{{U'a', 0}, {0x302, 1}, {0x301, 1}}));
  EXPECT_EQ(normalized(U"\uFB03", kNfkd), (Changes{{U'f', 0}, {U'f', 1}, {U'i', 1}}));
}

TEST(NormalForms, ACharacterThatIsRecomposedStandsWhereItStood) {
  EXPECT_EQ(normalized(U"\u1EA5\uAC01", kNfc), (Changes{{0x1EA5, 0}, {0xAC01, 0}}));
}

TEST(NormalForms, ACompositionSwallowsTheMark) {
  EXPECT_EQ(normalized(U"a\u0301b", kNfc), (Changes{{0xE1, -1}, {U'b', 0}}));
}

TEST(NormalForms, MarksAreOrderedStablyAndTakeTheirChangeAlong) {
  EXPECT_EQ(normalized(U"\u00E1\u0323\u0300", kNfd),
            (Changes{{U'a', 0}, {0x323, 0}, {0x301, 1}, {0x300, 0}}));
}

TEST(NormalForms, AMarkOfTheSameClassBlocksTheNext) {
  EXPECT_EQ(normalized(U"a\u0305\u0301", kNfc), (Changes{{U'a', 0}, {0x305, 0}, {0x301, 0}}));
}

TEST(NormalForms, AMarkOfALowerClassDoesNotBlock) {
  EXPECT_EQ(normalized(U"a\u0327\u0301", kNfc), (Changes{{0xE1, -1}, {0x327, 0}}));
}

TEST(NormalForms, LeadingMarksPassThrough) {
  EXPECT_EQ(normalized(U"\u0301a", kNfc), (Changes{{0x301, 0}, {U'a', 0}}));
}

TEST(NormalForms, ReplacesWhatTheResultHeld) {
  Changes out = {{U'x', 0}};
  normal_form(U"", false, true, out);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace accelerate::detail
