#include "accelerate/base/text.h"

#include <gtest/gtest.h>

namespace accelerate {
namespace {

TEST(Text, NearestFindsMisspellingsAndSwaps) {
  const std::vector<std::string> keys = {"num_processes", "num_machines", "mixed_precision"};
  EXPECT_EQ(nearest("num_proceses", keys), "num_processes");
  EXPECT_EQ(nearest("mixed_precisoin", keys), "mixed_precision");
  EXPECT_EQ(nearest("NUM_MACHINES", keys), "num_machines");
  EXPECT_EQ(nearest("num_procs", keys), "num_processes");
  EXPECT_EQ(nearest("foo", {"no", "fp16", "bf16"}), std::nullopt);
  EXPECT_EQ(nearest("bf61", {"no", "fp16", "bf16"}), "bf16");
  EXPECT_EQ(nearest("banana", keys), std::nullopt);
  EXPECT_EQ(nearest("", keys), std::nullopt);
}

TEST(Text, ParseIntTakesNothingButAnInteger) {
  EXPECT_EQ(parse_int("42"), 42);
  EXPECT_EQ(parse_int("+3"), 3);
  for (const char* bad : {"", "4 2", "0x10", "1e3", "9223372036854775808", "-"}) {
    EXPECT_EQ(parse_int(bad), std::nullopt) << bad;
  }
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(Text, RangesJoinNeighbours) {
  EXPECT_EQ(ranges({0, 2, 3, 4, 5, 9}), "0, 2-5, 9");
  EXPECT_EQ(ranges({0, 1}), "0, 1");
  EXPECT_EQ(ranges({}), "");
}

TEST(Text, CountOfKnowsThePluralsOfRegularNouns) {
  const std::pair<const char*, const char*> rows[] = {
      {"tensor", "2 tensors"},         {"repository", "2 repositories"}, {"key", "2 keys"},
      {"batch", "2 batches"},          {"process", "2 processes"},       {"index", "2 indexes"},
      {"model copy", "2 model copies"}};
  for (const auto& [noun, two] : rows) {
    EXPECT_EQ(count_of(1, noun), std::string("1 ") + noun);
    EXPECT_EQ(count_of(2, noun), two);
  }
  EXPECT_EQ(count_of(0, "repository"), "0 repositories");
}

TEST(Text, FormatBytesIsUpstreamsTable) {
  EXPECT_EQ(format_bytes(433249280.0), "413.18 MB");
  EXPECT_EQ(format_bytes(90669056.0), "86.47 MB");
  EXPECT_EQ(format_bytes(433249280.0 * 4), "1.61 GB");
}

}  // namespace
}  // namespace accelerate
