#include "accelerate/transformers/datasets/load_dataset.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::ScopedEnv;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

class LoadDataset : public ::testing::Test {
 protected:
  [[nodiscard]] Dataset load(const std::string& format, const std::string& text,
                             LoadDatasetOptions options = {}) const {
    options.data_files = files_.write("data", text).string();
    return load_dataset(format, options).only();
  }
  [[nodiscard]] std::string fault(const std::string& format, const std::string& text,
                                  LoadDatasetOptions options = {}) const {
    options.data_files = files_.write("data", text).string();
    return message_of<DataError>([&] { (void)load_dataset(format, options); });
  }
  [[nodiscard]] std::filesystem::path data() const { return files_.path() / "data"; }
  [[nodiscard]] std::size_t cached_files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(cache_.path()), {}));
  }

  TemporaryFolder files_, cache_;
  ScopedEnv variable_{"ACCELERATE_DATASETS_CACHE", cache_.path().c_str()};
};

TEST_F(LoadDataset, FindsTheTypesOfCsv) {
  const Dataset dataset = load(
      "csv", "name,n,x,flag,empty,mixed\n\"a, \"\"b\"\"\nc\",1,1.5,True,,1\r\nd,-2,nan,false,,x\n");
  EXPECT_EQ(detail::described(dataset.features()),
            "name: string, n: int64, x: float64, flag: bool, empty: null, mixed: string");
  EXPECT_EQ(dataset[0]["name"].text(), "a, \"b\"\nc");
  EXPECT_EQ(dataset[1]["n"].integer(), -2);
  EXPECT_TRUE(dataset[1]["x"].is_missing());
  EXPECT_EQ(dataset[0]["flag"], Value(true));
}

TEST_F(LoadDataset, TakesNumbersAndHeadersOfCsvAsPandasDoes) {
  const Dataset dataset = load("csv", "\xEF\xBB\xBF,x,n,y\r\n0,1e400, 7 ,+5\r\n1,-1e400,8,-0\r\n");
  EXPECT_EQ(detail::described(dataset.features()),
            "Unnamed: 0: int64, x: float64, n: int64, y: int64");
  EXPECT_EQ(
      dataset[0],
      (Row{{"Unnamed: 0", 0}, {"x", std::numeric_limits<double>::infinity()}, {"n", 7}, {"y", 5}}));
  EXPECT_EQ(dataset[1]["x"].number(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(load("csv", "a,b\n").size(), 0U);
  EXPECT_EQ(load("csv", "a,b\n\n1,2\n\n").size(), 1U);
  EXPECT_EQ(load("csv", "a\n1\n\n2")[1], (Row{{"a", 2}}));
}

TEST_F(LoadDataset, TakesQuotesWithinFieldsAndBlankLinesAsPandasDoes) {
  const Dataset dataset =
      load("csv", "\na,b\n5\" disk,w\n7,\"x\n \n\ny\"\n \t\r\n6\"\"\",z\n\nlast,\n");
  EXPECT_EQ(dataset.column("a"), (std::vector<Value>{"5\" disk", "7", "6\"\"\"", "last"}));
  EXPECT_EQ(dataset.column("b"), (std::vector<Value>{"w", "x\n \n\ny", "z", Value()}));
  EXPECT_EQ(load("csv", "a\nx\n\n  \ny\n").column("a"), (std::vector<Value>{"x", "y"}));
}

TEST_F(LoadDataset, TakesCsvAsItIsTold) {
  LoadDatasetOptions options;
  options.csv = {.delimiter = ';',
                 .quote = '\'',
                 .has_header = false,
                 .column_names = {"a", "b"},
                 .skip_rows = 1,
                 .na_values = {"-"}};
  const Dataset dataset = load("csv", "a comment\n'x;y';-\nz;2\n", options);
  EXPECT_EQ(dataset[0]["a"].text(), "x;y");
  EXPECT_TRUE(dataset[0]["b"].is_missing());
  options.features = Features{{"a", Feature::string()}, {"b", Feature::class_label({"no", "yes"})}};
  EXPECT_EQ(load("csv", "a comment\nx;yes\nz;0\n", options)[0]["b"].integer(), 1);
}

TEST_F(LoadDataset, SaysWhereCsvIsDamaged) {
  expect_has(fault("csv", "a,b\n1,2\n3\n"),
             "data, line 3: the row has 1 fields, and the header has 2");
  expect_has(fault("csv", "a,b\n1,\"2\n3,4\n"),
             "data, line 2, column 2: a quote that opens in this row is not closed");
  expect_has(fault("csv", "a,b\n1,\"2\n\n3\"\n\n4\n"), "data, line 6: the row has 1 fields");
  expect_has(fault("csv", "a,b\n\"1\",2\"3\n"), "line 2, column 2: a quote stands where none may");
  expect_has(fault("csv", "a,b\r\"1\r\r\"2,3\r"),
             "line 4, column 1: a quote stands where none may. A");
  expect_has(fault("csv", "a\n\xff\n"), "line 2, column 1: 'a' is not UTF-8");
  expect_has(fault("csv", "\xff\n1\n"), "its name is not UTF-8");
  expect_has(fault("csv", ""), "the file is empty; a CSV file begins with a header");
  expect_has(fault("csv", "a,b,a\n1,2,3\n"), "column 3: 'a' is the name of a column before it too");
  expect_has(message_of<UsageError>([&] { (void)load("csv", "a;b\n1;2\n").column("b"); }),
             "has ';' in its name. If it separates columns of CSV, give it as .csv.delimiter");
  expect_has(fault("csv", "a\tb\n1,5\t2,5\n"), "The only column has '\\t' in its name");
  std::string long_file = "n\n";
  for (int i = 0; i < 10'000; ++i) long_file += "1\n";
  expect_has(fault("csv", long_file + "word\n"),
             "line 10002, column 1: 'n' is 'word' where the column has int64. Give the column "
             "another type by {.features");
  LoadDatasetOptions options;
  options.features = Features{{"other", Feature::integer()}};
  expect_has(fault("csv", "a\n1\n", options),
             "the columns are a, but .features or the previous file has other: int64");
  for (const auto& [delimiter, quote] : {std::pair{'"', '"'}, {'\n', '"'}, {',', '\r'}}) {
    options = {.csv = {.delimiter = delimiter, .quote = quote}};
    EXPECT_THROW((void)load("csv", "a\n1\n", options), UsageError);
  }
}

TEST_F(LoadDataset, TakesNamesOfClassesBeforeNumbers) {
  LoadDatasetOptions options;
  options.features = Features{{"label", Feature::class_label({"1", "2", "3"})}};
  EXPECT_EQ(load("csv", "label\n1\n3\n0\n-1\n", options).column("label"),
            (std::vector<Value>{0, 2, 0, -1}));
  expect_has(fault("csv", "label\n1\n4\n", options),
             "line 3, column 1: 'label' is '4' where the column has class_label(1, 2, 3)");
  expect_has(fault("json", R"({"label": 3})", options),
             "'label' is the class 3 where the column has class_label(1, 2, 3)");
}

TEST_F(LoadDataset, EndsABatchBehindALongRow) {
  // Types are found in the first batch, which long rows fill: a word stands in the second one.
  const std::string text(5 << 20, 'x');
  expect_has(fault("csv", "text,n\n" + text + ",1\n" + text + ",2\n" + text + ",word\n"),
             "line 4, column 2: 'n' is 'word' where the column has int64");
  const auto json = [&](const std::string& n) {
    return "{\"text\": \"" + text + "\", \"n\": " + n + "}\n";
  };
  expect_has(fault("json", json("1") + json("2") + json("\"word\"")),
             "'n' is a string where the column has int64");
  EXPECT_EQ(load("text", text + "\n" + text + "\n" + text).size(), 3);
}

TEST_F(LoadDataset, SaysThatAFileIsCompressed) {
  for (const char* format : {"csv", "json", "text"})
    expect_has(fault(format, "\x1f\x8b\x08 and so on"),
               "is compressed by gzip. Decompress it first");
}

TEST_F(LoadDataset, ReadsJsonLinesAndLists) {
  const std::string rows[] = {R"({"text": "é\n", "ids": [1, 2], "x": 1})",
                              R"({"text": null, "ids": [], "x": 2.5, "more": [["a"], []]})"};
  for (const std::string& text :
       {rows[0] + "\n" + rows[1], "[" + rows[0] + ",\n" + rows[1] + "]\n", rows[0] + rows[1]}) {
    const Dataset dataset = load("json", text);
    EXPECT_EQ(detail::described(dataset.features()),
              "text: string, ids: list<int64>, x: float64, more: list<list<string>>");
    EXPECT_EQ(dataset[0]["text"].text(), "é\n");
    EXPECT_TRUE(dataset[0]["more"].is_missing());
  }
  LoadDatasetOptions options;
  options.json.field = "data";
  EXPECT_EQ(load("json", R"({"version": 1, "data": [)" + rows[0] + "]}", options).size(), 1U);
}

TEST_F(LoadDataset, TakesEmptyJsonAndMarks) {
  for (const char* const text : {"", "[]", " \n", "[ ]\n"})
    EXPECT_EQ(load("json", text).size(), 0U) << text;
  EXPECT_EQ(load("json", "\xEF\xBB\xBF{\"a\": 1}\r\n{\"a\": 2}\r\n")[1]["a"].integer(), 2);
}

TEST_F(LoadDataset, SaysWhereJsonIsDamaged) {
  expect_has(fault("json", "[{\"a\": 1}, {\"a\": 2},]"),
             "line 1, column 21: the list of rows ends with a comma");
  expect_has(fault("json", "[{\"a\": 1}\n{\"a\": 2}]"),
             "line 2, column 1: a comma is missing before this row");
  expect_has(fault("json", "[,{\"a\": 1}]"), "a comma stands where a row is expected");
  expect_has(fault("json", "{\"a\": 1, \"a\": 2}"), "line 1, column 1: the key 'a' appears twice");
  expect_has(fault("json", "{\"a\": [1, \"x\"]}"),
             "'a' is a list of values that have no type in common");
  expect_has(fault("json", "{\"a\": 1}\n{\"a\": }\n"), "data, line 2, column 1: is not valid JSON");
  expect_has(fault("json", "[{\"a\": 1}, {\"a\": 1}"), "the list of rows is not closed");
  expect_has(fault("json", "{\"a\": 1}\n  {\"a\": \"b}\n"),
             "line 2, column 9: a string is not closed");
  expect_has(fault("json", "{\"a\": 1}\n3\n"), "line 2, column 1: a row is an object");
  expect_has(fault("json", "{\"a\": {\"b\": 1}}"), "'a' is an object");
  expect_has(fault("json", "{\"a\": 1}\n{\"a\": \"x\"}"),
             "line 2, column 1: 'a' is a string, and was int64 before");
  // 2^63, -2^63 - 1 and 2^64 fit into no integer, 1e999 fits into no float.
  for (const std::string number :
       {"9223372036854775808", "-9223372036854775809", "18446744073709551616", "1e999", "-1e999"}) {
    const std::string what =
        number + (number.ends_with("e999") ? ", which is too large for a float of 64 bits"
                                           : ", an integer of more than 63 bits; give it as a");
    expect_has(fault("json", "{\"b\": 1e9, \"a\": " + number + "}"), "'a' is " + what);
    LoadDatasetOptions below{.json = {.field = "rows"}};
    expect_has(fault("json", "{\"rows\": [{\"a\": " + number + "}]}", below), "'a' is " + what);
  }
  expect_has(fault("json", "{\"a\": 1e}"), "is not valid JSON");
  expect_has(
      fault("json", "{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
      "line 1");
  expect_has(fault("json", "[{\"a\": 1}] {\"a\": 2}"), "something follows the list of rows");
  expect_has(fault("json", "{\"a\": \"\xff\"}"), "is not valid JSON");
  LoadDatasetOptions options;
  options.json.field = "rows";
  expect_has(fault("json", "{\"data\": []}", options), "there is no 'rows'");
  std::string long_file;
  for (int i = 0; i < 10'000; ++i) long_file += "{\"a\": 1}\n";
  expect_has(fault("json", long_file + "{\"a\": 1.5}"),
             "line 10001, column 1: 'a' is a float where the column has int64");
  expect_has(fault("json", long_file + "{\"a\": 1, \"b\": 2}"),
             "line 10001, column 1: 'b' is none of the columns found before: a: int64");
}

TEST_F(LoadDataset, TakesNamesOfClassesOfJson) {
  LoadDatasetOptions options;
  options.features = Features{{"a", Feature::class_label({"no", "yes"})}};
  EXPECT_EQ(load("json", "{\"a\": \"yes\"}\n{\"a\": 0}", options).column("a"),
            (std::vector<Value>{1, 0}));
  expect_has(fault("json", "{\"a\": \"maybe\"}", options), "line 1, column 1: 'a': ");
  options = {.json = {.field = "rows"}};
  expect_has(fault("json", "{\"rows\": [{\"a\": 1}, {\"a\": \"x\"}]}", options),
             "data, row 2 of the field: 'a' is a string, and was int64 before");
}

TEST_F(LoadDataset, FindsItsCacheAsTheHubDoes) {
  const ScopedEnv none("ACCELERATE_DATASETS_CACHE", nullptr),
      none_of_theirs("HF_DATASETS_CACHE", nullptr), home("HOME", "/somewhere");
  const ScopedEnv hub("HF_HOME", "~/hub");
  EXPECT_EQ(datasets_cache_folder(), "/somewhere/hub/datasets/accelerate");
  const ScopedEnv own("ACCELERATE_DATASETS_CACHE", "~/own");
  EXPECT_EQ(datasets_cache_folder(), "/somewhere/own");
}

TEST_F(LoadDataset, ReadsLines) {
  const Dataset dataset = load("text", "one\r\n\ntwo\rthree");
  EXPECT_EQ(dataset.column("text"), (std::vector<Value>{"one", "", "two", "three"}));
  EXPECT_EQ(load("text", "").size(), 0U);
  EXPECT_EQ(load("text", "\r").size(), 1U);
  // A line end that lies across the window.
  EXPECT_EQ(load("text", std::string(256 * 1024 - 1, 'x') + "\r\ny\r").size(), 2U);
  expect_has(fault("text", "a\nb\xff\n"), "line 2: is not UTF-8");
  EXPECT_EQ(load("text", std::string(3'000'000, 'x') + "\ny")[0]["text"].text().size(), 3'000'000U);
}

TEST_F(LoadDataset, ReadsWhatCrossesAWindow) {
  // Longer than the window, so that rows begin in one and end in another.
  std::string csv = "n,text\n", json;
  for (int i = 0; i < 60'000; ++i) {
    csv += std::to_string(i) + ",\"line\n" + std::to_string(i) + "\"\n";
    json += "{\"n\": " + std::to_string(i) + ", \"text\": \"line\\n" + std::to_string(i) + "\"}\n";
  }
  EXPECT_EQ(load("csv", "a,b\r1,2\r3,4\r")[1], (Row{{"a", 3}, {"b", 4}}));  // old line ends
  for (const Dataset& dataset : {load("csv", csv), load("json", json)}) {
    ASSERT_EQ(dataset.size(), 60'000U);
    for (std::size_t i = 0; i < dataset.size(); i += 997) {
      ASSERT_EQ(dataset[i], (Row{{"n", i}, {"text", "line\n" + std::to_string(i)}}));
    }
  }
}

TEST_F(LoadDataset, GivesSplits) {
  files_.write("train-0.csv", "a\n1\n");
  files_.write("train-1.csv", "a\n2\n");
  files_.write("test.csv", "a\n3\n");
  const std::string folder = files_.path().string() + "/";
  LoadDatasetOptions options{
      .data_files = {{"train", folder + "train-*.csv"}, {"test", folder + "test.csv"}}};
  const DatasetDict splits = load_dataset("csv", options);
  const std::string one = folder + "train-0.csv", other = folder + "test.csv";
  EXPECT_EQ(load_dataset("csv", {.data_files = {one.c_str(), other.c_str()}}).only().column("a"),
            (std::vector<Value>{1, 3}));
  EXPECT_EQ(splits["train"].column("a"), (std::vector<Value>{1, 2}));
  options.split = "test";
  EXPECT_EQ(load_dataset("csv", options).only().size(), 1U);
  options.split = "validation";
  expect_has(message_of<UsageError>([&] { (void)load_dataset("csv", options); }),
             ".data_files has: train, test");
  options.split = "train[:10]";
  expect_has(message_of<UsageError>([&] { (void)load_dataset("csv", options); }), "slice()");
  EXPECT_THROW((void)load_dataset("csv", {}), UsageError);
  EXPECT_THROW((void)load_dataset("ex cel", {.data_files = "x"}), ConfigError);
  EXPECT_THROW((void)load_dataset("csv", {.data_files = folder + "none.csv"}), FileError);
  expect_has(message_of<FileError>(
                 [&] { (void)load_dataset("csv", {.data_files = folder + "none-*.csv"}); }),
             "no file matches");
  EXPECT_THROW((void)load_dataset("csv", {.data_files = folder}), FileError);
  EXPECT_THROW((void)load_dataset("parquet", {.data_files = folder}), Error);
  options = {.data_files = {{"train", one}, {"train", other}}};
  expect_has(message_of<UsageError>([&] { (void)load_dataset("csv", options); }),
             ".data_files names the split 'train' twice");
  expect_has(message_of<UsageError>(
                 [&] { (void)load_dataset("csv", {.data_files = folder + "*/train-0.csv"}); }),
             "in the name of a folder");
}

TEST_F(LoadDataset, FindsColumnsInTheFirstFileThatHasAny) {
  const std::string empty = files_.write("0.jsonl", "\n").string(),
                    full = files_.write("1.jsonl", "{\"a\": 1}").string();
  const LoadDatasetOptions options{.data_files = {empty.c_str(), full.c_str(), empty.c_str()}};
  EXPECT_EQ(load_dataset("json", options).only().column("a"), (std::vector<Value>{1}));
  EXPECT_EQ(stream_dataset("json", options).only().features()->size(), 1);
  EXPECT_EQ(load_dataset("json", {.data_files = empty}).only().size(), 0);
}

TEST_F(LoadDataset, MapsWhatItReadBeforeUntilAFileChanges) {
  (void)load("csv", "a\n1\n");
  (void)load_dataset("csv", {.data_files = data()});
  const auto one = cached_files();
  EXPECT_EQ(load("csv", "a\n22\n")[0]["a"].integer(), 22);
  EXPECT_GT(cached_files(), one);
  EXPECT_EQ(load_dataset("csv", {.data_files = data()}).only().fingerprint(),
            load_dataset("csv", {.data_files = data()}).only().fingerprint());
  LoadDatasetOptions in_memory{.data_files = data(), .keep_in_memory = true};
  const auto before = cached_files();
  EXPECT_EQ(load_dataset("csv", in_memory).only()[0]["a"].integer(), 22);
  EXPECT_EQ(cached_files(), before);
}

TEST_F(LoadDataset, LeavesNothingOfAFileItCouldNotRead) {
  (void)fault("csv", "a,b\n1,2\n3\n");
  EXPECT_EQ(cached_files(), 0U);
}

TEST_F(LoadDataset, StreamsRowsAndNoticesAFileThatIsCutShort) {
  std::string text = "n\n";
  for (int i = 0; i < 300'000; ++i) text += std::to_string(i) + "\n";
  files_.write("data", text);
  const IterableDataset rows = stream_dataset("csv", {.data_files = data()}).only();
  std::int64_t expected = 0;
  for (const Row& row : rows) ASSERT_EQ(row["n"].integer(), expected++);
  EXPECT_EQ(expected, 300'000);
  EXPECT_EQ(cached_files(), 0U);
  const auto message = message_of<DataError>([&] {
    std::size_t seen = 0;
    for (const Row& row : rows) {
      if (++seen == 10) std::filesystem::resize_file(data(), 1'000'000);
      (void)row;
    }
  });
  expect_has(message, "it was cut short while it was read");
}

TEST_F(LoadDataset, ShufflesAStreamByItsEpoch) {
  files_.write("data", "1\n2\n3\n4\n5\n6\n7\n8\n");
  IterableDataset rows = stream_dataset("text", {.data_files = data()}).only().shuffle(7, 8);
  const auto pass = [&] {
    std::string seen;
    for (const Row& row : rows) seen += row["text"].text();
    return seen;
  };
  const std::string first = pass();
  EXPECT_EQ(pass(), first);
  rows.set_epoch(1);
  EXPECT_NE(pass(), first);
  rows.set_epoch(0);
  EXPECT_EQ(pass(), first);
}

TEST_F(LoadDataset, StreamsWhatFunctionsMakeOfRows) {
  files_.write("data", "1\n2\n3\n4\n5\n6\n");
  const IterableDataset rows = stream_dataset("text", {.data_files = data()}).only();
  std::string seen;
  for (const Row& row : rows.filter([](const Row& row) { return row["text"].text() != "2"; })
                            .map(
                                [](const Row& row) {
                                  return Row{{"twice", row["text"].text() + row["text"].text()}};
                                },
                                {"text"})
                            .skip(1)
                            .take(3)) {
    EXPECT_FALSE(row.contains("text"));
    seen += row["twice"].text();
  }
  EXPECT_EQ(seen, "334455");
}

// Every byte of a file of the cache is changed or cut once: rows, an error, never a crash.
TEST_F(LoadDataset, TakesNoHarmOfADamagedCache) {
  files_.write(
      "data",
      "[{\"a\": [1, 2], \"b\": \"text\", \"c\": null}, {\"a\": [], \"b\": \"more\", \"c\": 1.5}]");
  const LoadDatasetOptions options{.data_files = data()};
  (void)load_dataset("json", options);
  const auto file = std::filesystem::directory_iterator(cache_.path())->path();
  std::ifstream in(file, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  std::size_t rows = 0, errors = 0;
  for (std::size_t place = 0; place < good.size(); ++place) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 0x55);
    std::filesystem::remove(file);
    std::ofstream(file, std::ios::binary) << bad;
    try {
      for (const Row& row : load_dataset("json", options).only()) rows += row.size();
    } catch (const DataError&) {
      ++errors;
    }
  }
  EXPECT_GT(rows, 0U);
  SUCCEED() << errors << " of " << good.size() << " were errors";
}

TEST_F(LoadDataset, OfParquetSaysWhatToInstallOrReads) {
  const auto file = std::filesystem::path(ACCELERATE_SOURCE_DIR) / "tests/reference/rows.parquet";
  try {
    const Dataset dataset = load_dataset("parquet", {.data_files = file}).only();
    EXPECT_EQ(
        detail::described(dataset.features()),
        "text: string, label: class_label(neg, pos), score: float64, ids: list<int64>, flag: bool");
    ASSERT_EQ(dataset.size(), 1000U);
    for (std::size_t i = 0; i < dataset.size(); ++i) {
      ASSERT_EQ(dataset[i]["text"].text(), "row " + std::to_string(i));
      ASSERT_EQ(dataset[i]["label"].integer(), static_cast<std::int64_t>(i % 2));
      ASSERT_EQ(dataset[i]["flag"].is_missing(), i % 3 == 0);
      ASSERT_EQ(dataset[i]["ids"].list().size(), i % 4);
    }
    // Arrow's simdjson and ours live in one process.
    EXPECT_EQ(load("json", "{\"a\": [1, 2.5]}").size() + load("json", "[{\"a\": 1}]").size(), 2U);
  } catch (const ConfigError& error) {
    expect_has(error.what(), "pip install pyarrow");
    GTEST_SKIP() << error.what();
  }
  expect_has(fault("parquet", "PAR1 is not enough"), "is not Parquet, or is damaged");
}

}  // namespace
}  // namespace accelerate
