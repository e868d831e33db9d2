#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "accelerate/transformers/datasets/dataset.h"
#include "accelerate/transformers/datasets/dataset_dict.h"
#include "accelerate/transformers/datasets/iterable_dataset.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

Dataset numbers(std::int64_t count) {
  Numbers values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(i);
  return Dataset::from_columns({{"n", values}});
}

Row squared(const Row& row) {
  return {{"square", row["n"].integer() * row["n"].integer()}};
}

// A batched function that counts its calls.
struct Doubling {
  std::atomic<int>* calls;
  RowBatch operator()(const RowBatch& batch) const {
    ++*calls;
    Numbers doubled = batch.integers("n");
    for (auto& value : doubled) value *= 2;
    return {{"double", doubled}};
  }
};

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(Map, AddsAndReplacesColumnsRowByRow) {
  const Dataset mapped = numbers(5).map(squared);
  EXPECT_EQ(mapped[3], (Row{{"n", 3}, {"square", 9}}));
  const Dataset replaced = numbers(5).map(
      [](const Row& row) { return Row{{"n", "n" + std::to_string(row["n"].integer())}}; });
  EXPECT_EQ(replaced.feature("n"), Feature::string());
  EXPECT_EQ(numbers(5).map(squared, {.remove_columns = {"n"}}).column_names(), Words{"square"});
  EXPECT_EQ(numbers(0).map(squared).size(), 0U);
}

TEST(Map, GivesTheSameOnAnyNumberOfThreads) {
  std::atomic<int> calls = 0;
  const Dataset alone = numbers(10'000).map(Doubling{&calls}, {.batch_size = 7});
  for (const std::size_t threads : {2, 3, 8}) {
    const Dataset mapped =
        numbers(10'000).map(Doubling{&calls}, {.batch_size = 7, .num_proc = threads});
    EXPECT_EQ(mapped.column("double"), alone.column("double"));
  }
  EXPECT_EQ(calls, 4 * ((10'000 + 6) / 7));
}

TEST(Map, OfABatchMayGiveAnotherNumberOfRows) {
  const auto twice = [](const RowBatch& batch) {
    Numbers all = batch.integers("n");
    const Numbers again = all;
    all.insert(all.end(), again.begin(), again.end());
    return RowBatch{{"m", all}};
  };
  EXPECT_EQ(numbers(10).map(twice, {.remove_columns = {"n"}}).size(), 20U);
  expect_has(message_of<DataError>([&] { (void)numbers(10).map(twice); }), "rows 0 to 9");
  expect_has(
      message_of<UsageError>([&] { (void)numbers(10).map(twice, {.remove_columns = {"x"}}); }),
      "there is no column 'x'");
}

TEST(Map, TakesAnyNumberOfRowsAndThreads) {
  const auto most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t batch_size : {most, most - 1, std::size_t{5}}) {
    const Dataset mapped = numbers(5).map(squared, {.batch_size = batch_size, .num_proc = most});
    ASSERT_EQ(mapped.size(), 5);
    EXPECT_EQ(mapped[4]["square"].integer(), 16);
  }
  EXPECT_EQ(numbers(5).filter([](const Row& row) { return row["n"].integer() > 2; }, most).size(),
            2);
}

TEST(Map, SaysInWhichRowsAFunctionFailed) {
  const auto fails = [](const Row& row) -> Row {
    if (row["n"].integer() == 1500) throw DataError("no more");
    return {{"m", 1}};
  };
  expect_has(message_of<DataError>([&] { (void)numbers(3000).map(fails); }),
             "the function of map() failed in rows 1000 to 1999");
  expect_has(message_of<DataError>([&] { (void)numbers(3000).map(fails, {.num_proc = 2}); }),
             "no more");
  const auto foreign = [](const Row&) -> Row { throw std::runtime_error("foreign"); };
  EXPECT_THROW((void)numbers(3).map(foreign), std::runtime_error);
  const auto changes = [](const Row& row) {
    return row["n"].integer() < 1500 ? Row{{"m", 1}} : Row{{"m", "text"}};
  };
  expect_has(message_of<DataError>([&] { (void)numbers(3000).map(changes); }), "'m'");
  const auto adds = [](const Row& row) {
    return row["n"].integer() < 1500 ? Row{{"m", 1}} : Row{{"m", 1}, {"k", 1}};
  };
  expect_has(message_of<DataError>([&] { (void)numbers(3000).map(adds, {.batch_size = 1500}); }),
             "'k', which is none of: n, m. Name all columns by {.features}");
  const auto widens = [](const Row& row) {
    return row["n"].integer() < 3 ? Row{{"m", 1}} : Row{{"m", 1}, {"k", 1}};
  };
  expect_has(message_of<DataError>([&] { (void)numbers(5).map(widens); }),
             "row 3 of the batch gave 2 columns, and its first row 1");
  EXPECT_THROW((void)numbers(3).map(squared, {.batch_size = 0}), UsageError);
  EXPECT_THROW((void)numbers(3).map(squared, {.num_proc = 0}), UsageError);
}

TEST(Map, SaysWhichCellHasAnotherType) {
  const Dataset rows = Dataset::from_rows({{{"n", 1}, {"x", 0.5}, {"l", Value::List{"a"}}},
                                           {{"n", Value()}, {"x", 1.5}, {"l", Value::List{}}},
                                           {{"n", 2}, {"x", 2.5}, {"l", Value::List{Value()}}}});
  const auto read_n = [](const Row& row) { return Row{{"m", row["n"].integer()}}; };
  const auto read_x = [](const Row& row) { return row["x"].integer() > 0; };
  const std::string missing =
      "row 1, column 'n': nothing is there; allowed is an integer. Leave out";
  const std::string floating =
      "row 0, column 'x': a float is there; allowed is an integer. Read it";
  expect_has(message_of<DataError>([&] { (void)rows.map(read_n, {.batch_size = 1}); }), missing);
  expect_has(message_of<UsageError>([&] { (void)rows.filter(read_x); }), floating);
  const IterableDataset stream([&](std::size_t) -> IterableDataset::Next {
    return [&, i = std::size_t{0}]() mutable -> std::optional<Row> {
      return i == rows.size() ? std::nullopt : std::optional(rows[i++]);
    };
  });
  expect_has(message_of<UsageError>([&] {
               for (const Row& row : stream.map(read_n)) (void)row;
             }),
             missing);
  expect_has(message_of<UsageError>([&] {
               for (const Row& row : stream.filter(read_x)) (void)row;
             }),
             floating);
  const RowBatch batch = rows.batch(0, 3);
  expect_has(message_of<UsageError>([&] { (void)batch.integers("n"); }), "filter()");
  expect_has(message_of<UsageError>([&] { (void)batch.text_lists("l"); }),
             "the column 'l', in the list in row 2 of the batch: nothing is there");
  expect_has(message_of<UsageError>([&] { (void)rows.class_encode_column("x"); }),
             "by map() first");
}

TEST(NamedMap, IsKeptOnDiskUnderContentOptionsAndName) {
  const TemporaryFolder folder;
  std::atomic<int> calls = 0;
  const auto mapped = [&](const Dataset& dataset, const std::string& name,
                          std::size_t batch_size = 1000) {
    return dataset.map(Doubling{&calls},
                       {.name = name, .batch_size = batch_size, .cache_dir = folder.path()});
  };
  EXPECT_EQ(mapped(numbers(10), "double")[9]["double"].integer(), 18);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(mapped(numbers(10), "double")[9]["double"].integer(), 18);
  EXPECT_EQ(calls, 1) << "equal content was computed anew";
  (void)mapped(numbers(11), "double");
  (void)mapped(numbers(10), "other");
  (void)mapped(numbers(10).rename_column("n", "n2").rename_column("n2", "n").select({1, 0}),
               "double");
  EXPECT_EQ(calls, 4);
  (void)mapped(numbers(10), "double", 5);
  EXPECT_EQ(calls, 6);
  (void)numbers(10).map(
      Doubling{&calls},
      {.name = "double", .load_from_cache_file = false, .cache_dir = folder.path()});
  EXPECT_EQ(calls, 7);
  EXPECT_EQ(files_in(folder.path()), 5U);
}

TEST(NamedMap, IsMadeAnewWhenItsFileIsDamaged) {
  const TemporaryFolder folder;
  std::atomic<int> calls = 0;
  const MapOptions options{.name = "double", .cache_dir = folder.path()};
  (void)numbers(100).map(Doubling{&calls}, options);
  const auto file = std::filesystem::directory_iterator(folder.path())->path();
  const auto size = std::filesystem::file_size(file);
  for (const std::uintmax_t left : {size - 1, size / 2, std::uintmax_t{5}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(file, left);
    EXPECT_EQ(numbers(100).map(Doubling{&calls}, options)[99]["double"].integer(), 198);
  }
  EXPECT_EQ(calls, 5);
}

TEST(NamedMap, WhoseFileIsCutShortIsAnErrorAndNoSignal) {
  const TemporaryFolder folder;
  std::atomic<int> calls = 0;
  const Dataset mapped =
      numbers(100'000).map(Doubling{&calls}, {.name = "double", .cache_dir = folder.path()});
  EXPECT_EQ(mapped[99'999]["double"].integer(), 199'998);
  const auto file = std::filesystem::directory_iterator(folder.path())->path();
  std::filesystem::resize_file(file, 100);
  const auto message = message_of<DataError>([&] { (void)mapped[99'999]; });
  expect_has(message, file.string());
  expect_has(message, "was cut short while its rows were in use");
  EXPECT_THROW((void)mapped.batch(0, 10), DataError);
  EXPECT_THROW((void)concatenate_datasets({mapped, mapped})[150'000], DataError);
  EXPECT_THROW((void)mapped.column("double"), DataError);
}

TEST(NamedMap, SaysThatTheDiskIsFullAndLeavesNothing) {
  const TemporaryFolder folder;
  std::atomic<int> calls = 0;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto message = message_of<DataError>([&] {
    (void)numbers(10'000).map(Doubling{&calls}, {.name = "double", .cache_dir = folder.path()});
  });
  setrlimit(RLIMIT_FSIZE, &before);
  expect_has(message, "the rows cannot be kept in the cache of datasets");
  expect_has(message, "ACCELERATE_DATASETS_CACHE");
  EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(NamedMap, SaysThatTheCacheCannotBeWritten) {
  const TemporaryFolder folder;
  const auto file = folder.write("file", "no folder");
  std::atomic<int> calls = 0;
  const auto message = message_of<DataError>([&] {
    (void)numbers(10).map(Doubling{&calls}, {.name = "double", .cache_dir = file / "below"});
  });
  expect_has(message, "the cache of datasets cannot be written");
  expect_has(message, file.string());
}

}  // namespace
}  // namespace accelerate
