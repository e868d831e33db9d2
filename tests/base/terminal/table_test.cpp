#include "accelerate/base/terminal/table.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

Table sample() {
  Table table({{"name"}, {"ms", Align::right}});
  table.add_row({"all-reduce", "0.19"});
  table.add_row({"漢é", "12"});
  return table;
}

TEST(Table, BoxLinesUpInDisplayColumns) {
  EXPECT_EQ(sample().box(),
            "┌────────────┬──────┐\n"
            "│ name       │   ms │\n"
            "├────────────┼──────┤\n"
            "│ all-reduce │ 0.19 │\n"
            "│ 漢é        │   12 │\n"
            "└────────────┴──────┘\n");
}

TEST(Table, BoxCanDoWithoutUtf8) {
  Table table({{"a"}});
  table.add_row({"1"});
  table.add_row({"two\nlines"});
  EXPECT_EQ(table.box(false),
            "+-----------+\n"
            "| a         |\n"
            "+-----------+\n"
            "| 1         |\n"
            "| two lines |\n"
            "+-----------+\n");
}

TEST(Table, MarkdownMarksAlignmentAndEscapes) {
  Table table = sample();
  table.add_row({"a|b\nc", ""});
  EXPECT_EQ(table.markdown(),
            "| name       |   ms |\n"
            "| ---------- | ---: |\n"
            "| all-reduce | 0.19 |\n"
            "| 漢é        |   12 |\n"
            "| a\\|b<br>c  |      |\n");
}

TEST(Table, MarkdownColumnsAreAtLeastThreeWide) {
  EXPECT_EQ(Table({{"a"}, {"", Align::right}}).markdown(),
            "| a   |     |\n"
            "| --- | --: |\n");
}

TEST(Table, ARowOfAnotherLengthIsRefused) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), UsageError);
  EXPECT_THROW(table.add_row({}), UsageError);
}

}  // namespace
}  // namespace accelerate
