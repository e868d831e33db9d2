#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/watch/trackers/csv_tracker.h"
#include "accelerate/watch/trackers/json_lines_tracker.h"
#include "accelerate/watch/trackers/tensorboard_tracker.h"
#include "accelerate/watch/trackers/trackers.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using testing::TemporaryFolder;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename Tracker>
class Started {
 public:
  explicit Started(const TemporaryFolder& folder, ConfigMap config = {})
      : folder_(folder.path() / "run"), tracker_({"run", folder.path(), {}}) {
    tracker_.start();
    if (!config.empty()) tracker_.store_init_configuration(config);
  }
  ~Started() { tracker_.finish(); }
  Tracker* operator->() { return &tracker_; }

 private:
  std::filesystem::path folder_;
  Tracker tracker_;
};

std::string text_of(const std::filesystem::path& path) {
  return read_file(real_file_system(), path, 1 << 20);
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::istringstream text(text_of(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Without the time, which is the second cell.
std::vector<std::string> rows_of(const TemporaryFolder& folder) {
  std::vector<std::string> rows;
  for (const auto& line : lines_of(folder.path() / "run" / "metrics.csv")) {
    const auto first = line.find(',');
    rows.push_back(line.substr(0, first) + line.substr(line.find(',', first + 1)));
  }
  return rows;
}

std::vector<Json> objects_of(const TemporaryFolder& folder) {
  std::vector<Json> objects;
  for (const auto& line : lines_of(folder.path() / "run" / "metrics.jsonl")) {
    objects.push_back(Json::parse(line));
    EXPECT_TRUE(objects.back().at("_time").is_number());
    objects.back().erase("_time");
  }
  return objects;
}

TEST(JsonLines, AreOneObjectForEachLog) {
  const TemporaryFolder folder;
  {
    Started<JsonLinesTracker> run(folder);
    run->log({{"loss", 0.5}, {"epoch", 3}, {"note", "\"grüße\"\n"}}, 7);
    run->log({{"acc", Scalars{{"train", 0.9}, {"test", 0.8}}}}, std::nullopt);
  }
  const auto rows = objects_of(folder);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], Json::parse(R"({"_step":7,"loss":0.5,"epoch":3,"note":"\"grüße\"\n"})"));
  EXPECT_EQ(rows[1], Json::parse(R"({"_step":null,"acc":{"train":0.9,"test":0.8}})"));
}

TEST(JsonLines, KeepWhatIsNoNumberAsItsName) {
  const TemporaryFolder folder;
  Started<JsonLinesTracker>(folder)->log({{"a", kNaN}, {"b", kInf}, {"c", Scalars{{"d", -kInf}}}},
                                         1);
  EXPECT_EQ(objects_of(folder)[0],
            Json::parse(R"({"_step":1,"a":"NaN","b":"Infinity","c":{"d":"-Infinity"}})"));
}

TEST(JsonLines, GoOnInTheNextRunBehindATornLine) {
  const TemporaryFolder folder;
  Started<JsonLinesTracker>(folder)->log({{"a", 1}}, 1);
  folder.write("run/metrics.jsonl", text_of(folder.path() / "run/metrics.jsonl") + "{\"_st");
  Started<JsonLinesTracker>(folder)->log({{"a", 2}}, 2);
  const auto rows = objects_of(folder);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].at("a"), 2);
}

TEST(JsonLines, KeepALastLineThatLacksItsEnd) {
  const TemporaryFolder folder;
  folder.write("run/metrics.jsonl", "{\"_step\":1,\"_time\":2,\"a\":1}");
  Started<JsonLinesTracker>(folder)->log({{"a", 2}}, 2);
  EXPECT_EQ(objects_of(folder).size(), 2u);
}

TEST(JsonLines, KeepNoImageOpen) {
  const TemporaryFolder folder;
  Started<JsonLinesTracker> run(folder);
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  for (int i = 0; i < 100; ++i) run->log_images({{"x", at::zeros({2, 2})}}, i);
  run->finish();
  EXPECT_LE(descriptors(), before + 3);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path() / "run/images"), {}),
            100);
  run->start();
}

TEST(JsonLines, HoldHistogramsTablesAndTheNamesOfImages) {
  const TemporaryFolder folder;
  {
    Started<JsonLinesTracker> run(folder);
    run->log({{"w", Histogram{at::ones({3})}}}, 1);
    run->log_table("t", {{"x", "y"}, {{1, "a"}, {kNaN, 0.5}}}, 2);
    run->log_images({{"in put/s", at::zeros({2, 2})}}, 3);
  }
  const auto rows = objects_of(folder);
  EXPECT_EQ(rows[0].at("w").at("_histogram").at("num"), 3);
  EXPECT_EQ(rows[1].at("t").at("_table"),
            Json::parse(R"({"columns":["x","y"],"data":[[1,"a"],["NaN",0.5]]})"));
  const std::string file = rows[2].at("in put/s").at("_image");
  EXPECT_TRUE(file.starts_with("images/in_put_s-3-")) << file;
  EXPECT_TRUE(text_of(folder.path() / "run" / file).starts_with("\x89PNG"));
}

TEST(JsonLines, LieBesideTheConfiguration) {
  const TemporaryFolder folder;
  {
    Started<JsonLinesTracker> run(folder, {{"lr", 0.1}, {"net", ConfigMap{{"layers", 2}}}});
  }
  EXPECT_EQ(Json::parse(text_of(folder.path() / "run" / "config.json")),
            Json::parse(R"({"lr":0.1,"net":{"layers":2}})"));
}

TEST(Csv, HasAColumnForEachValue) {
  const TemporaryFolder folder;
  {
    Started<CsvTracker> run(folder);
    run->log({{"loss", 0.5}, {"note", "a,\"b\"\nc"}}, 1);
  }
  EXPECT_EQ(text_of(folder.path() / "run/metrics.csv").substr(0, 20), "step,time,loss,note\n");
  EXPECT_NE(text_of(folder.path() / "run/metrics.csv").find(",0.5,\"a,\"\"b\"\"\nc\"\n"),
            std::string::npos);
}

TEST(Csv, ANewColumnLeavesEarlierRowsWhole) {
  const TemporaryFolder folder;
  {
    Started<CsvTracker> run(folder);
    run->log({{"a", 1}}, 1);
    run->log({{"b", 2}}, 2);
    run->log({{"a", 3}, {"c", Scalars{{"x", 4}, {"y", 5}}}}, 3);
  }
  EXPECT_EQ(rows_of(folder),
            (std::vector<std::string>{"step,a,b,c/x,c/y", "1,1,,,", "2,,2,,", "3,3,,4,5"}));
}

TEST(Csv, KeepsWhatIsNoNumberAndTellsEmptyTextsFromMissingValues) {
  const TemporaryFolder folder;
  Started<CsvTracker>(folder)->log({{"a", kNaN}, {"b", -kInf}, {"c", ""}}, std::nullopt);
  EXPECT_EQ(rows_of(folder)[1], ",nan,-inf,\"\"");
}

TEST(Csv, GoesOnInTheNextRunWithTheColumnsThatAreThere) {
  const TemporaryFolder folder;
  Started<CsvTracker>(folder)->log({{"a", 1}, {"b", "x"}}, 1);
  folder.write("run/metrics.csv", text_of(folder.path() / "run/metrics.csv") + "2,17637");
  Started<CsvTracker>(folder)->log({{"b", "y"}, {"new", 2}}, 2);
  EXPECT_EQ(rows_of(folder), (std::vector<std::string>{"step,a,b,new", "1,1,x,", "2,,y,2"}));
}

TEST(Csv, DoesNotTouchAFileThatIsNotItsOwn) {
  const TemporaryFolder folder;
  folder.write("run/metrics.csv", "name,age\nx,1\n");
  CsvTracker tracker({"run", folder.path(), {}});
  EXPECT_THROW(tracker.start(), ConfigError);
  EXPECT_EQ(text_of(folder.path() / "run/metrics.csv"), "name,age\nx,1\n");
  folder.write("run/metrics.csv", "one line of someone's");
  EXPECT_THROW(tracker.start(), ConfigError);
  EXPECT_EQ(text_of(folder.path() / "run/metrics.csv"), "one line of someone's");
}

TEST(Csv, BeginsAnewWhereAKilledRunLeftNoWholeRow) {
  const TemporaryFolder folder;
  folder.write("run/metrics.csv", "step,ti");
  Started<CsvTracker>(folder)->log({{"a", 1}}, 1);
  EXPECT_EQ(rows_of(folder), (std::vector<std::string>{"step,a", "1,1"}));
}

TEST(CsvText, TakesItsOwnCellsApart) {
  const std::vector<std::string> cells = {"a", "b,c", "say \"x\"", "", "d\ne"};
  std::string line;
  for (const auto& cell : cells) {
    if (!line.empty()) line += ',';
    line += detail::csv_text(cell);
  }
  EXPECT_EQ(detail::csv_header(line + "\n1,2,3,4,5\n"), cells);
  EXPECT_EQ(detail::csv_header("a,b,\n"), (std::vector<std::string>{"a", "b", ""}));
}

TEST(CsvText, WholeRowsEndAtALineEndOutsideQuotes) {
  EXPECT_EQ(detail::csv_whole_rows("a\n\"b\nc"), 2u);
  EXPECT_EQ(detail::csv_whole_rows("a\n\"b\nc\"\n"), 8u);
  EXPECT_EQ(detail::csv_whole_rows("a"), 0u);
}

// A disk that is full for a while: what a tracker wrote in the end is what it writes on a good one.
template <typename Tracker>
class FullDisk : public ::testing::Test {};
using FileTrackers = ::testing::Types<TensorBoardTracker, JsonLinesTracker, CsvTracker>;
TYPED_TEST_SUITE(FullDisk, FileTrackers);

int count(const testing::LogCapture& log, const std::string& part) {
  int lines = 0;
  for (const auto& line : log.lines()) lines += line.find(part) != std::string::npos ? 1 : 0;
  return lines;
}

TYPED_TEST(FullDisk, DoesNotStopTheTrainingAndIsNamedOnce) {
  for (std::size_t step = 0; step < 6; ++step) {
    const testing::LogCapture log;
    testing::FaultyFileSystem disk({.fail_at = step, .failures = 3});
    TypeParam tracker({"run", "/logs", {}},
                      {.flush_interval = std::chrono::milliseconds(1), .files = &disk});
    tracker.start();
    for (int i = 0; count(log, " again; ") == 0; ++i) {
      tracker.log({{"a", i}, {i < 10 ? "b0" : "b1", 1}}, i);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    tracker.log({{"last", 1}}, 1);
    tracker.finish();
    std::string all;
    for (const auto& [path, content] : disk.visible()) all += content;
    EXPECT_NE(all.find("last"), std::string::npos) << "failing from step " << step;
    EXPECT_EQ(count(log, "errno 28"), 1) << "failing from step " << step;
    EXPECT_EQ(count(log, "nothing was lost"), 1) << "failing from step " << step;
  }
}

template <typename Tracker>
class EveryFileTracker : public ::testing::Test {};
TYPED_TEST_SUITE(EveryFileTracker, FileTrackers);

TYPED_TEST(EveryFileTracker, RefusesValuesWithoutARun) {
  const TemporaryFolder folder;
  TypeParam tracker({"run", folder.path(), {}});
  EXPECT_THROW(tracker.log({{"a", 1}}, 1), UsageError) << "before start()";
  tracker.start();
  tracker.finish();
  EXPECT_THROW(tracker.log({{"a", 1}}, 1), UsageError) << "after finish()";
  EXPECT_THROW(tracker.store_init_configuration({{"lr", 1}}), UsageError);
}

TYPED_TEST(EveryFileTracker, BeginsAnewWhenSomeoneRemovesItsFolder) {
  const testing::LogCapture log;
  const TemporaryFolder folder;
  TypeParam tracker({"run", folder.path(), {{"flush_secs", 0.001}}});
  tracker.start();
  for (int i = 0; count(log, "was removed") == 0; ++i) {  // Bounded by the test's own limit.
    tracker.log({{"before", i}}, i);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // Again when the tracker has made a file there meanwhile.
    for (std::error_code busy(i == 5 ? 1 : 0, std::generic_category()); busy;)
      std::filesystem::remove_all(folder.path() / "run", busy);
  }
  tracker.log({{"after", 1}}, 1);
  tracker.finish();
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "run")) {
    all += text_of(entry.path());
  }
  EXPECT_NE(all.find("after"), std::string::npos);
  if (std::is_same_v<TypeParam, CsvTracker>) {
    EXPECT_TRUE(all.starts_with("step,time,before,after\n")) << all;
  }
  if (std::is_same_v<TypeParam, TensorBoardTracker>) {
    EXPECT_NE(all.substr(0, 60).find("brain.Event:2"), std::string::npos);
  }
}

template <typename Tracker>
class ContinuedFile : public ::testing::Test {};
using ContinuingTrackers = ::testing::Types<JsonLinesTracker, CsvTracker>;
TYPED_TEST_SUITE(ContinuedFile, ContinuingTrackers);

TYPED_TEST(ContinuedFile, IsWrittenByOneRunAtATime) {
  const TemporaryFolder folder;
  TypeParam first({"run", folder.path(), {}}), second({"run", folder.path(), {}});
  first.start();
  try {
    second.start();
    FAIL() << "two at once";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(" writes to it in a run that has not ended"),
              std::string::npos)
        << error.what();
  }
  first.log({{"a", 1}}, 1);
  first.finish();
  second.start();
  second.log({{"a", 2}}, 2);
  second.finish();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path() / "run"), {}), 1)
      << "no lock stays behind";
}

}  // namespace
}  // namespace accelerate
