#include "accelerate/transformers/datasets/dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "accelerate/transformers/datasets/dataset_dict.h"
#include "accelerate/transformers/datasets/repository/chosen_files.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using Words = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

Dataset sample() {
  return Dataset::from_columns({{"text", Words{"a", "b", "c", "d"}},
                                {"label", Numbers{1, 0, 1, 0}},
                                {"score", std::vector<double>{0.5, 0.25, 4, -1}}});
}

Numbers labels(const Dataset& dataset) {
  Numbers found;
  for (const Row& row : dataset) found.push_back(row["label"].integer());
  return found;
}

std::string texts(const Dataset& dataset) {
  std::string found;
  for (const Row& row : dataset) found += row["text"].text();
  return found;
}

TEST(Dataset, ShowsRowsAndColumnsWithTheirTypes) {
  const Dataset dataset = sample();
  EXPECT_EQ(dataset.size(), 4U);
  EXPECT_EQ(dataset.column_names(), (Words{"text", "label", "score"}));
  EXPECT_EQ(dataset.feature("score").description(), "float64");
  EXPECT_EQ(dataset[2], (Row{{"text", "c"}, {"label", 1}, {"score", 4.0}}));
  EXPECT_EQ(dataset.column("label"), (std::vector<Value>{1, 0, 1, 0}));
  EXPECT_EQ(dataset.batch(1, 3).texts("text"), (Words{"b", "c"}));
  EXPECT_EQ(Dataset().size(), 0U);
}

TEST(Dataset, OfRowsFindsTypes) {
  const Dataset dataset = Dataset::from_rows({
      Row{{"ids", Numbers{1, 2}},
          {"score", 1},
          {"flag", true},
          {"words", Words{"x"}},
          {"nothing", Value()}},
      Row{{"ids", Value::List{}},
          {"score", 2.5},
          {"flag", Value()},
          {"words", Words{}},
          {"nothing", Value()}},
  });
  EXPECT_EQ(dataset.feature("ids").description(), "list<int64>");
  EXPECT_EQ(dataset.feature("score").description(), "float64");
  EXPECT_EQ(dataset.feature("words").description(), "list<string>");
  EXPECT_EQ(dataset.feature("nothing").description(), "null");
  EXPECT_TRUE(dataset[1]["flag"].is_missing());
  EXPECT_EQ(dataset[0]["score"].number(), 1.0);
}

TEST(Dataset, OfRowsThatDoNotGoTogetherSaysWhich) {
  expect_has(
      message_of<DataError>([] { (void)Dataset::from_rows({Row{{"a", 1}}, Row{{"b", 1}}}); }),
      "row 1 has 'b'");
  expect_has(
      message_of<DataError>([] { (void)Dataset::from_rows({Row{{"a", 1}}, Row{{"a", "text"}}}); }),
      "row 1: 'a' is a string, and was int64 before");
  expect_has(message_of<DataError>(
                 [] { (void)Dataset::from_rows({Row{{"a", 1}, {"b", 1}}, Row{{"a", 1}}}); }),
             "row 1: a row has no 'b'");
  expect_has(message_of<UsageError>(
                 [] { (void)Dataset::from_columns({{"a", Numbers{1, 2}}, {"b", Numbers{1}}}); }),
             "'b' has 1 rows, and 'a' has 2");
  EXPECT_THROW((void)Dataset::from_rows({Row{{"a", "x"}}}, Features{{"a", Feature::integer()}}),
               DataError);
}

TEST(Dataset, NamesWhatIsNotThere) {
  const Dataset dataset = sample();
  expect_has(message_of<UsageError>([&] { (void)dataset.column("labl"); }),
             "there are: text, label, score. Did you mean 'label'?");
  expect_has(message_of<UsageError>([&] { (void)dataset[4]; }),
             "there is no row 4; the dataset has 4");
  expect_has(message_of<UsageError>([&] { (void)dataset[0]["txt"]; }), "there is no column 'txt'");
  expect_has(message_of<UsageError>([&] { (void)dataset[0]["text"].integer(); }),
             "a string is there; allowed is an integer");
  EXPECT_THROW((void)dataset.select({0, 9}), UsageError);
  EXPECT_THROW((void)dataset.slice(3, 9), UsageError);
  EXPECT_THROW((void)dataset.shard(2, 2), UsageError);
  EXPECT_THROW((void)dataset.shard(0, 0), UsageError);
  EXPECT_THROW((void)dataset.remove_columns({"txt"}), UsageError);
  EXPECT_THROW((void)dataset.rename_column("text", "label"), UsageError);
  EXPECT_THROW((void)dataset.batch(2, 1), UsageError);
}

TEST(Dataset, SelectsSlicesAndShards) {
  const Dataset dataset = sample();
  EXPECT_EQ(texts(dataset.select({3, 3, 0})), "dda");
  EXPECT_EQ(texts(dataset.select({3, 2, 1}).select({2, 0})), "bd");
  EXPECT_EQ(texts(dataset.slice(1, 3)), "bc");
  EXPECT_EQ(texts(dataset.shard(3, 0)), "ab");
  EXPECT_EQ(texts(dataset.shard(3, 0, /*contiguous=*/false)), "ad");
  EXPECT_EQ(texts(concatenate_datasets({dataset.slice(2, 4), dataset.select({0})})), "cda");
  EXPECT_EQ(texts(dataset.filter([](const Row& row) { return row["label"].integer() == 0; },
                                 /*num_proc=*/2)),
            "bd");
}

TEST(Dataset, SortsWithTheMissingAtTheEnd) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Dataset dataset =
      Dataset::from_rows({Row{{"text", "a"}, {"n", 2.0}}, Row{{"text", "b"}, {"n", nan}},
                          Row{{"text", "c"}, {"n", 1.0}}, Row{{"text", "d"}, {"n", Value()}},
                          Row{{"text", "e"}, {"n", 2.0}}});
  EXPECT_EQ(texts(dataset.sort("n")), "caebd");
  EXPECT_EQ(texts(dataset.sort("n", {.reverse = true})), "aecbd");
  EXPECT_EQ(texts(dataset.sort("n", {.nulls_at_end = false})), "dbcae");
  EXPECT_EQ(texts(dataset.sort("n", {.reverse = true, .nulls_at_end = false})), "dbaec");
  EXPECT_EQ(texts(sample().sort("text", {.reverse = true})), "dcba");
}

TEST(Dataset, RenamesRemovesAndShowsColumns) {
  Dataset dataset = sample().rename_column("label", "labels").remove_columns({"score"});
  EXPECT_EQ(dataset.column_names(), (Words{"text", "labels"}));
  dataset.set_format({"labels"});
  EXPECT_EQ(dataset[0], (Row{{"labels", 1}}));
  EXPECT_EQ(dataset.batch(0, 1).names(), (Words{"text", "labels"}));
  EXPECT_EQ(texts(dataset.filter([](const Row& row) { return row["text"].text() == "b"; })
                      .select_columns({"text"})),
            "b");
  dataset.set_format();
  EXPECT_TRUE(dataset[0].contains("text"));
}

TEST(Dataset, WithoutColumnsHasNoRows) {
  const Dataset dataset = sample().remove_columns(sample().column_names());
  EXPECT_EQ(dataset.size(), 0);
  EXPECT_EQ(dataset.map([](const Row&) { return Row{{"n", 1}}; }).size(), 0);
}

TEST(Dataset, RefusesNamesTextsAndListsThatNoTableCanHave) {
  const std::string bad = "\xff";
  expect_has(message_of<UsageError>([&] { (void)Dataset::from_rows({Row{{bad, 1}}}); }),
             "the name of column 1 is not UTF-8");
  expect_has(message_of<UsageError>([&] { (void)Feature::class_label({bad}); }), "is not UTF-8");
  for (const Value& value : {Value(bad), Value(Words{"a", bad})}) {
    expect_has(message_of<DataError>([&] { (void)Dataset::from_rows({Row{{"text", value}}}); }),
               "row 0: column 'text': a string that is not UTF-8");
  }
  expect_has(message_of<DataError>([&] { (void)Dataset::from_columns({{"text", Words{bad}}}); }),
             "a string that is not UTF-8");
  Feature deep = Feature::integer();
  for (int i = 0; i < 65; ++i) deep = Feature::list_of(deep);
  expect_has(
      message_of<UsageError>([&] { (void)Dataset::from_rows({}, Features{{"deep", deep}}); }),
      "the column 'deep' has 65 lists within each other; allowed are 64");
  expect_has(message_of<UsageError>([] { (void)Feature::integer().element(); }),
             "int64 has no element; only a list has one");
  expect_has(message_of<UsageError>([] { (void)Value(std::uint64_t{1} << 63); }),
             "the integer 9223372036854775808 was given");
}

TEST(Dataset, RefusesClassesWithoutAName) {
  const Features features{{"label", Feature::class_label({"neg", "pos"})},
                          {"tags", Feature::list_of(Feature::class_label({"a", "b"}))}};
  const auto with = [&](std::int64_t label, std::int64_t tag) {
    return Dataset::from_rows({Row{{"label", label}, {"tags", std::vector<std::int64_t>{tag}}}},
                              features);
  };
  EXPECT_EQ(with(-1, 1)[0]["label"].integer(), -1);  // No class.
  expect_has(message_of<DataError>([&] { (void)with(2, 0); }),
             "row 0: column 'label': the class 2 where the column has class_label(neg, pos)");
  expect_has(message_of<DataError>([&] { (void)with(0, -2); }),
             "column 'tags': the class -2 where");
}

TEST(Dataset, OfMissingValuesAloneHasAFingerprintForEachNumberOfRows) {
  const auto nothing = [](std::size_t rows) {
    return Dataset::from_rows(std::vector<Row>(rows, Row{{"n", Value()}}));
  };
  EXPECT_NE(nothing(2).fingerprint(), nothing(3).fingerprint());
  EXPECT_EQ(nothing(2).fingerprint(), nothing(2).fingerprint());
}

TEST(Dataset, EncodesClasses) {
  const Dataset dataset =
      Dataset::from_columns({{"label", Words{"pos", "neg", "pos"}}}).class_encode_column("label");
  EXPECT_EQ(dataset.feature("label").names(), (Words{"neg", "pos"}));
  EXPECT_EQ(labels(dataset), (Numbers{1, 0, 1}));
  EXPECT_EQ(dataset.feature("label").int2str(1), "pos");
  expect_has(message_of<UsageError>([&] { (void)dataset.feature("label").str2int("poss"); }),
             "pos");
  EXPECT_THROW((void)dataset.feature("label").int2str(2), UsageError);
  EXPECT_THROW((void)sample().class_encode_column("score"), UsageError);
  const Dataset chosen =
      Dataset::from_columns({{"n", Numbers{1, 2, 3}}, {"label", Words{"x", "y", "z"}}})
          .select({2, 0})
          .class_encode_column("label");
  EXPECT_EQ(chosen.feature("label").names(), (Words{"x", "z"}));
  EXPECT_EQ(chosen[0], (Row{{"n", 3}, {"label", 1}}));
  expect_has(
      message_of<UsageError>([&] { (void)sample().slice(0, 0).class_encode_column("text"); }),
      "has no values to make classes of");
}

TEST(Dataset, ConcatenatesOnlyWhatIsAlike) {
  const Dataset one = Dataset::from_columns({{"a", Numbers{1}}, {"b", Words{"x"}}});
  const Dataset turned = Dataset::from_columns({{"b", Words{"y"}}, {"a", Numbers{2}}});
  const Dataset both = concatenate_datasets({one, turned});
  EXPECT_EQ(both[1], (Row{{"a", 2}, {"b", "y"}}));
  EXPECT_EQ(labels(concatenate_datasets({sample().select({0, 0, 2, 2})})), (Numbers{1, 1, 1, 1}));
  EXPECT_EQ(concatenate_datasets({Dataset(), Dataset()}).size(), 0U);
  expect_has(
      message_of<UsageError>([&] { (void)concatenate_datasets({one, one.remove_columns({"b"})}); }),
      "all need the same names and types");
  EXPECT_THROW((void)concatenate_datasets({}), UsageError);
}

// The rows are those that Python `datasets` 5.2 gives (tests/reference/datasets_golden.json has
// more).
TEST(Dataset, SplitsAndShufflesByTheSeed) {
  const Dataset dataset = Dataset::from_columns({{"label", Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}});
  EXPECT_NE(labels(dataset.shuffle({.seed = 42})), labels(dataset.shuffle({.seed = 43})));
  EXPECT_EQ(labels(dataset.shuffle({.seed = 42})), labels(dataset.shuffle({.seed = 42})));
  const DatasetDict parts = dataset.train_test_split({.test_size = 0.2, .seed = 42});
  EXPECT_EQ(parts.keys(), (Words{"train", "test"}));
  EXPECT_EQ(parts["train"].size(), 8U);
  EXPECT_EQ(labels(dataset.train_test_split({.test_size = 3, .shuffle = false})["test"]),
            (Numbers{7, 8, 9}));
  expect_has(message_of<UsageError>([&] { (void)parts["tset"]; }),
             "there are: train, test. Did you mean 'test'?");
  expect_has(message_of<UsageError>([&] { (void)parts.only(); }), "one split was asked for");
  EXPECT_THROW((void)dataset.train_test_split({.test_size = 10}), UsageError);
  EXPECT_THROW((void)dataset.train_test_split({.test_size = 1.5}), UsageError);
  EXPECT_THROW((void)dataset.train_test_split({.stratify_by_column = "label"}), UsageError);
}

TEST(Dataset, IsPushedOnlyAsASplitThatLoadDatasetTakes) {
  for (const char* name : {"train", "a.b", "a_1", "ä"}) EXPECT_TRUE(detail::is_split_name(name));
  for (const char* name : {"", ".a", "a.", "a..b", "a-b", "a/b"}) {
    expect_has(message_of<UsageError>([&] { (void)sample().push_to_hub("me/data", {}, name); }),
               "cannot be a file's name");
  }
}

TEST(Dataset, IsReadByThreadsAtOnce) {
  const Dataset dataset = sample();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < 4000; ++i)
        ASSERT_EQ(dataset[i % 4]["text"].text()[0], "abcd"[i % 4]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace accelerate
