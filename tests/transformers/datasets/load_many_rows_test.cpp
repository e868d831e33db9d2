// Files of several batches and windows: what is quick in the readers has the answers of what is
// not.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "accelerate/transformers/datasets/load_dataset.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::ScopedEnv;
using testing::TemporaryFolder;

constexpr int kRows = 24'000;

class LoadManyRows : public ::testing::Test {
 protected:
  [[nodiscard]] Dataset load(const std::string& format, const std::string& text) const {
    const LoadDatasetOptions options{.data_files = files_.write("data", text).string()};
    return load_dataset(format, options).only();
  }
  [[nodiscard]] std::string fault(const std::string& format, const std::string& text) const {
    return message_of<DataError>([&] { (void)load(format, text); });
  }

  TemporaryFolder files_, cache_;
  ScopedEnv variable_{"ACCELERATE_DATASETS_CACHE", cache_.path().c_str()};
};

struct Written {
  const char* csv;
  const char* json;
  Value value;
};

const std::vector<Written>& texts() {
  static const std::vector<Written> kTexts{
      {"plain words of some length, no", R"("plain words of some length")",
       "plain words of some length"},
      {"\"a, \"\"b\"\"\",no", R"("a, \"b\"")", "a, \"b\""},
      {"\"two\n\nlines\",no", R"("two\n\nlines")", "two\n\nlines"},
      {"5\" disk,no", R"("5\" disk")", "5\" disk"},
      {"日本 é,no\r", R"("\u65e5本 é")", "日本 é"},
      {",no", "null", Value()},
      {"\"\",no", "null", Value()},
      {"{[]},no", R"("{[]}")", "{[]}"}};
  return kTexts;
}

TEST_F(LoadManyRows, OfCsvWhereverABatchOrWindowEnds) {
  std::string file = "text,word,n,x\n";
  for (int i = 0; i < kRows; ++i) {
    if (i % 50 == 0) file += " \n\n";
    std::string row = texts()[i % texts().size()].csv;
    const bool has_return = row.ends_with('\r');
    if (has_return) row.pop_back();
    file += row + "," + std::to_string(i) + "," + (i % 3 == 0 ? "+0.5" : " -2e3 ") +
            (has_return ? "\r\n" : "\n");
  }
  const Dataset rows = load("csv", file);
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kRows));
  for (int i = 0; i < kRows; i += 7) {
    const Row row = rows[static_cast<std::size_t>(i)];
    const Value& text = texts()[i % texts().size()].value;
    ASSERT_EQ(row["text"], text) << i;
    ASSERT_EQ(row["n"], Value(i)) << i;
    ASSERT_EQ(row["x"], Value(i % 3 == 0 ? 0.5 : -2000.0)) << i;
  }
}

TEST_F(LoadManyRows, OfCsvWhoseLinesEndByAReturn) {
  std::string file = "text,n\r";
  for (int i = 0; i < kRows; ++i) file += "words of some length," + std::to_string(i) + "\r";
  const Dataset rows = load("csv", file);
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kRows));
  for (int i = 0; i < kRows; i += 7)
    ASSERT_EQ(rows[static_cast<std::size_t>(i)]["n"], Value(i)) << i;
}

TEST_F(LoadManyRows, OfJsonWhateverKeysARowHas) {
  std::string file;
  for (int i = 0; i < kRows; ++i) {
    const std::string text = std::string(R"("text": )") + texts()[i % texts().size()].json;
    const std::string number = R"("n": )" + std::to_string(i);
    file += i % 3 == 0   ? "{" + text + ", " + number + R"(, "ids": [[1], [], null]})"
            : i % 3 == 1 ? "{" + number + ",\n " + text + R"(, "ids": [[2, 3]], "x": 7})"
                         : "{" + number + ", " + text + R"(, "x": 0.5})";
    file += i % 5 == 0 ? " " : "\n";
  }
  const Dataset rows = load("json", file);
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kRows));
  const Value::List lists{std::vector<std::int64_t>{1}, std::vector<std::int64_t>{}, Value()};
  for (int i = 0; i < kRows; i += 7) {
    const Row row = rows[static_cast<std::size_t>(i)];
    ASSERT_EQ(row["text"], texts()[i % texts().size()].value) << i;
    ASSERT_EQ(row["n"], Value(i)) << i;
    ASSERT_EQ(row["x"], i % 3 == 0 ? Value() : Value(i % 3 == 1 ? 7.0 : 0.5)) << i;
    ASSERT_EQ(row["ids"].is_missing(), i % 3 == 2) << i;
    if (i % 3 == 0) {
      ASSERT_EQ(row["ids"].list().size(), lists.size()) << i;
    }
  }
}

TEST_F(LoadManyRows, TellsOfTwoFaultsInABatchTheOneOfTheForm) {
  std::string csv = "n,m\n", json;
  for (int i = 0; i < kRows; ++i) {
    csv += i == 15'000 ? "word,1\n" : i == 18'000 ? "\"1\"2,3\n" : "1,2\n";
    json += i == 15'000 ? "{\"n\": \"word\"}\n" : i == 18'000 ? "{\"n\": 1,}\n" : "{\"n\": 1}\n";
  }
  expect_has(fault("csv", csv), "line 18002, column 1: a quote stands where none may");
  expect_has(fault("json", json), "line 18001, column 1: is not valid JSON");
  csv.replace(csv.find("\"1\"2,3"), 6, "1,2   ");
  json.replace(json.find("1,}"), 3, "1} ");
  expect_has(fault("csv", csv), "line 15002, column 1: 'n' is 'word' where the column has int64");
  expect_has(fault("json", json), "line 15001, column 1: 'n' is a string where the column has");
}

TEST_F(LoadManyRows, FindsWhatJsonMayNotHaveInALaterBatch) {
  std::string begin;
  for (int i = 0; i < 12'000; ++i) begin += "{\"n\": 1, \"t\": [1]}\n";
  const std::pair<const char*, const char*> cases[] = {
      {R"({"n": 1, "n": 2})", "the key 'n' appears twice"},
      {R"({"n": 1, "m": 2})", "'m' is none of the columns found before"},
      {R"({"n": {}})", "'n' is an object"},
      {R"({"n": 18446744073709551615})", "more than 63 bits"},
      {R"({"n": 1.5})", "'n' is a float where the column has int64"},
      {R"({"t": ["a"]})", "'t' is a string where the column has int64"},
      {R"([1])", "a row is an object"},
      {R"({"n": "open)", "a string is not closed"}};
  for (const auto& [row, what] : cases) {
    const std::string message = fault("json", begin + row + "\n");
    expect_has(message, "line 12001, column");
    expect_has(message, what);
  }
}

}  // namespace
}  // namespace accelerate
