#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/transformers/datasets/load_dataset.h"
#include "accelerate/transformers/datasets/writers/parquet_writer.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::ScopedEnv;
using testing::TemporaryFolder;

class ParquetWrite : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      Dataset::from_rows({{{"a", 1}}}).to_parquet(file());
    } catch (const ConfigError& error) {
      expect_has(error.what(), "and this build cannot write it");
      expect_has(error.what(), "pip install pyarrow");
      EXPECT_TRUE(std::filesystem::is_empty(files_.path()));
      GTEST_SKIP() << error.what();
    }
  }

  [[nodiscard]] std::filesystem::path file() const { return files_.path() / "rows.parquet"; }
  [[nodiscard]] Dataset read() const {
    return load_dataset("parquet", {.data_files = file().string()}).only();
  }
  [[nodiscard]] Dataset written(const Dataset& dataset) const {
    dataset.to_parquet(file());
    return read();
  }
  // The rows and features of `dataset` come back.
  void expect_same(const Dataset& dataset) const {
    const Dataset back = written(dataset);
    EXPECT_EQ(back.features(), dataset.features()) << detail::described(back.features());
    EXPECT_TRUE(std::ranges::equal(back, dataset));
  }
  [[nodiscard]] std::size_t files_there() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(files_.path()), {}));
  }

  TemporaryFolder files_, cache_;
  ScopedEnv variable_{"ACCELERATE_DATASETS_CACHE", cache_.path().c_str()};
};

Dataset numbered(std::size_t rows, const std::string& text = "row ") {
  std::vector<std::int64_t> numbers(rows);
  std::vector<std::string> texts(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    numbers[i] = static_cast<std::int64_t>(i);
    texts[i] = text + std::to_string(i);
  }
  return Dataset::from_columns({{"n", numbers}, {"text", texts}});
}

// While it lives files may not grow beyond `bytes`: a disk that is full.
class LargestFile {
 public:
  explicit LargestFile(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~LargestFile() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  LargestFile(const LargestFile&) = delete;
  LargestFile& operator=(const LargestFile&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(PythonFeatures, AreThoseOfPythonToTheByte) {
  const Features features{
      {"text", Feature::string()},
      {"label", Feature::class_label({"neg", "p\u00F6s", "\U0001F600\x7F\"\n"})},
      {"none", Feature::null()},
      {"ids", Feature::list_of(Feature::list_of(Feature::integer()))}};
  // json.dumps() of what Python `datasets` 5.2 keeps of these.
  EXPECT_EQ(detail::metadata_of(features),
            R"({"info": {"features": {"text": {"dtype": "string", "_type": "Value"}, )"
            R"("label": {"names": ["neg", "p\u00f6s", "\ud83d\ude00\u007f\"\n"], )"
            R"("_type": "ClassLabel"}, "none": {"dtype": "null", "_type": "Value"}, )"
            R"("ids": {"feature": {"feature": {"dtype": "int64", "_type": "Value"}, )"
            R"("_type": "List"}, "_type": "List"}}}})");
  EXPECT_EQ(detail::metadata_of({}), R"({"info": {"features": {}}})");
}

TEST_F(ParquetWrite, KeepsEveryTypeAndMissingValues) {
  const Features features{{"none", Feature::null()},
                          {"n", Feature::integer()},
                          {"x", Feature::floating()},
                          {"flag", Feature::boolean()},
                          {"text", Feature::string()},
                          {"label", Feature::class_label({"neg", "pos"})},
                          {"ids", Feature::list_of(Feature::integer())},
                          {"words", Feature::list_of(Feature::list_of(Feature::string()))},
                          {"tags", Feature::list_of(Feature::class_label({"B", "I", "O"}))},
                          {"empty", Feature::list_of(Feature::null())},
                          {"\u00E9.\"", Feature::list_of(Feature::boolean())}};
  const auto row = [](const std::vector<Value>& values, const Features& named) {
    Row cells;
    for (std::size_t i = 0; i < values.size(); ++i) cells.add(named[i].first, values[i]);
    return cells;
  };
  const Value::List words{Value::List{"a", Value(), ""}, Value(), Value::List{}};
  expect_same(Dataset::from_rows(
      {row(std::vector<Value>(features.size()), features),
       row({Value(), -1, 0.5, true, "\u4F60\u597D", 1, Value::List{1, Value(), 3}, words,
            Value::List{0, 2}, Value::List{Value(), Value()}, Value::List{true, Value(), false}},
           features),
       row({Value(), INT64_MIN, -0.0, false, "", -1, Value::List{}, Value::List{},
            Value::List{Value()}, Value::List{}, Value::List{}},
           features)},
      features));
}

TEST_F(ParquetWrite, KeepsFeaturesWithoutRows) {
  const Features features{{"label", Feature::class_label({"a", "b"})},
                          {"ids", Feature::list_of(Feature::integer())}};
  expect_same(Dataset::from_rows({}, features));
  expect_same(Dataset::from_rows({{{"label", 0}, {"ids", Value()}}}, features).slice(0, 0));
}

TEST_F(ParquetWrite, KeepsColumnsWithoutBytes) {
  expect_same(Dataset::from_rows({{{"text", ""}, {"words", Value::List{"", ""}}}}));
  const Features features{{"words", Feature::list_of(Feature::string())}};
  expect_same(Dataset::from_rows({{{"words", Value::List{}}}, {{"words", Value()}}}, features));
}

TEST_F(ParquetWrite, KeepsTheOrderAndNamesThatADatasetShows) {
  const Dataset dataset = concatenate_datasets({numbered(50), numbered(300)});
  expect_same(dataset);
  expect_same(dataset.shuffle({.seed = 7}));
  expect_same(dataset.select({3, 3, 4, 60, 0}).rename_column("n", "m"));
  expect_same(dataset.select_columns({"text"}).slice(40, 70));
  Dataset shown = dataset;
  shown.set_format({"text"});
  EXPECT_EQ(written(shown).column_names(), dataset.column_names());
}

TEST_F(ParquetWrite, WritesSomeRows) {
  detail::write_parquet(numbered(100).shuffle({.seed = 1}), 20, 30, file());
  EXPECT_TRUE(std::ranges::equal(read(), numbered(100).shuffle({.seed = 1}).slice(20, 50)));
  expect_has(message_of<UsageError>([&] { detail::write_parquet(numbered(5), 4, 2, file()); }),
             "there are not 2 rows from row 4 on; the dataset has 5");
}

TEST_F(ParquetWrite, TakesSeveralRowGroups) {
  const Dataset dataset = numbered(40, std::string(1 << 20, 'x'));
  expect_same(dataset);
  expect_same(dataset.shuffle({.seed = 3}));
  const Dataset many = written(numbered((1 << 20) + 10));
  ASSERT_EQ(many.size(), (1U << 20) + 10);
  EXPECT_EQ(many[1 << 20]["n"].integer(), 1 << 20);
}

TEST_F(ParquetWrite, LeavesTheOldFileWhenItFails) {
  const auto no_folder = files_.path() / "none/rows.parquet";
  expect_has(message_of<FileError>([&] { numbered(1).to_parquet(no_folder); }), "No such file");
  numbered(5).to_parquet(file());
  EXPECT_THROW(detail::write_parquet(numbered(5), 0, 6, file()), UsageError);
  EXPECT_EQ(read().size(), 5U);
  EXPECT_EQ(files_there(), 1U);
}

TEST_F(ParquetWrite, SaysThatTheDiskIsFull) {
  const Dataset dataset = numbered(200'000).shuffle();
  {
    const LargestFile limit(1 << 20);
    expect_has(message_of<FileError>([&] { dataset.to_parquet(file()); }), "File too large");
  }
  EXPECT_EQ(read().size(), 1U);
  EXPECT_EQ(files_there(), 1U);
}

}  // namespace
}  // namespace accelerate
