// split_between_processes against what the original gave.
#include "accelerate/tensor/split.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>
#include <sstream>

#include "accelerate/base/text.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using Numbers = std::vector<std::int64_t>;

struct Row {
  std::string kind;
  std::int64_t length = 0;
  int ranks = 0;
  bool padding = false;
  std::vector<std::string> parts;
};

std::vector<Row> rows() {
  std::vector<Row> all;
  std::istringstream lines(testing::read_reference("split_between_processes.txt"));
  for (std::string line; std::getline(lines, line);) {
    Row row;
    std::istringstream words(line);
    words >> row.kind >> row.length >> row.ranks >> row.padding;
    std::string parts;
    std::getline(words.ignore(), parts);
    row.parts = split(parts, '|');
    all.push_back(row);
  }
  return all;
}

std::string text_of(const Numbers& numbers) {
  std::vector<std::string> words;
  for (const auto number : numbers) words.push_back(std::to_string(number));
  return join(words, " ");
}

Numbers part_of(const Row& row, int rank) {
  Numbers all(static_cast<std::size_t>(row.length));
  std::iota(all.begin(), all.end(), 0);
  const SplitOptions options{.apply_padding = row.padding};
  if (row.kind == "list") return split_between_ranks(all, rank, row.ranks, options);
  if (row.kind == "dict") {
    const std::map<std::string, Numbers> value = {{"a", all}, {"b", all}};
    return split_between_ranks(value, rank, row.ranks, options).at("b");
  }
  const auto part = split_between_ranks(torch::arange(row.length), rank, row.ranks, options);
  return {part.const_data_ptr<std::int64_t>(), part.const_data_ptr<std::int64_t>() + part.numel()};
}

TEST(SplitBetweenProcesses, GivesEveryRankWhatTheOriginalGives) {
  const auto all = rows();
  ASSERT_EQ(all.size(), 235u);
  for (const auto& row : all) {
    ASSERT_EQ(row.parts.size(), static_cast<std::size_t>(row.ranks));
    for (int rank = 0; rank < row.ranks; ++rank) {
      EXPECT_EQ(text_of(part_of(row, rank)), row.parts[static_cast<std::size_t>(rank)])
          << row.kind << " of " << row.length << ", rank " << rank << " of " << row.ranks;
    }
  }
}

TEST(SplitBetweenProcesses, PadsTensorsAndMapsAsItPadsLists) {
  const auto tensor = split_between_ranks(torch::arange(5), 1, 2, {.apply_padding = true});
  EXPECT_TRUE(tensor.equal(torch::tensor({3, 4, 4})));
  const std::map<std::string, Numbers> value = {{"a", {7, 8, 9}}};
  EXPECT_EQ(split_between_ranks(value, 1, 2, {.apply_padding = true}).at("a"), (Numbers{9, 9}));
  EXPECT_TRUE(split_between_ranks(Numbers{}, 1, 2, {.apply_padding = true}).empty());
}

TEST(SplitBetweenProcesses, UnequalMapsAndScalarsAreUsageErrors) {
  const std::map<std::string, Numbers> uneven = {{"a", {1, 2}}, {"b", {1}}};
  EXPECT_THROW((void)split_between_ranks(uneven, 0, 2, {}), UsageError);
  EXPECT_THROW((void)split_between_ranks(torch::tensor(1), 0, 2, {}), UsageError);
}

}  // namespace
}  // namespace accelerate
