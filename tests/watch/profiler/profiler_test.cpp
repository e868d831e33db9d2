// What is recorded, when, and what the files and tables hold.
#include "accelerate/watch/profiler/profiler.h"

#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/comm/state/partial_state.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using detail::average_by_key;
using detail::TraceEvent;
using testing::message_of;
using testing::TemporaryFolder;

void work(int times = 1) {
  for (int i = 0; i < times; ++i)
    (void)torch::relu(torch::mm(torch::ones({4, 5}), torch::ones({5, 6})));
}

nlohmann::json read_json(const fs::path& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream);
}

std::vector<std::string> names_in(const nlohmann::json& trace) {
  std::vector<std::string> names;
  for (const auto& event : trace.at("traceEvents"))
    if (event.value("ph", "") == "X") names.push_back(event.at("name"));
  return names;
}

std::int64_t count(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::count(names, name);
}

std::int64_t calls_of(const std::vector<OperatorStats>& operators, const std::string& name) {
  const auto found = std::ranges::find(operators, name, &OperatorStats::name);
  return found == operators.end() ? 0 : found->calls;
}

TEST(ProfileSchedule, DoesInEveryStepWhatTheOriginalDoes) {
  std::istringstream lines(testing::read_reference("profiler_schedule.txt"));
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    std::istringstream words(line);
    ProfileSchedule schedule;
    std::string letters;
    words >> schedule.wait >> schedule.warmup >> schedule.active >> schedule.repeat >>
        schedule.skip_first >> schedule.skip_first_wait >> letters;
    std::string ours;
    for (std::size_t step = 0; step < letters.size(); ++step)
      ours += "nwrs"[static_cast<int>(action_at(schedule, static_cast<std::int64_t>(step)))];
    EXPECT_EQ(ours, letters) << line;
  }
  EXPECT_EQ(rows, 324);
}

TEST(ProfileSchedule, RefusesNumbersThatMakeNoCycle) {
  for (const ProfileSchedule& bad : {ProfileSchedule{.active = 0},
                                     {.wait = -1},
                                     {.warmup = -1},
                                     {.repeat = -1},
                                     {.skip_first = -2}}) {
    EXPECT_NE(message_of<UsageError>([&] {
                Profiler profiler({.schedule_option = bad});
              }).find("active must be 1 or more"),
              std::string::npos);
  }
}

TEST(Profiler, WritesATraceThatBrowsersOpenAndAnswersForItsOperators) {
  const TemporaryFolder folder;
  std::vector<OperatorStats> operators;
  {
    Profiler profiler({.record_shapes = true, .output_trace_dir = folder.path() / "traces"});
    work(3);
    profiler.stop();
    operators = profiler.key_averages();
  }
  EXPECT_EQ(calls_of(operators, "aten::mm"), 3);
  const auto trace = read_json(folder.path() / "traces" / "profile_0.json");
  EXPECT_EQ(count(names_in(trace), "aten::mm"), 3);
  EXPECT_EQ(trace.at("distributedInfo").at("rank"), 0);
  EXPECT_EQ(trace.at("distributedInfo").at("world_size"), 1);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("name", "") != "aten::mm") continue;
    EXPECT_EQ(event.at("args").at("Input Dims").dump(), "[[4,5],[5,6]]");
    EXPECT_GT(event.at("dur").get<double>(), 0);
    EXPECT_TRUE(event.contains("ts") && event.contains("pid") && event.contains("tid"));
  }
}

TEST(Profiler, SeesBackwardToo) {
  auto weight = torch::ones({5, 5}, torch::requires_grad());
  Profiler profiler;
  torch::mm(torch::ones({2, 5}), weight).sum().backward();
  profiler.stop();
  EXPECT_EQ(calls_of(profiler.key_averages(), "MmBackward0"), 1);
}

TEST(Profiler, RecordsTheStepsOfItsScheduleAndOneFileACycle) {
  const TemporaryFolder folder;
  std::vector<std::pair<std::int64_t, std::int64_t>> ready;
  {
    Profiler profiler(
        {.schedule_option = ProfileSchedule{.wait = 1, .warmup = 1, .active = 2, .repeat = 2},
         .on_trace_ready =
             [&](ProfileTrace& trace) {
               ready.emplace_back(trace.cycle(), trace.step());
               EXPECT_EQ(calls_of(trace.key_averages(), "aten::mm"), 2);
             },
         .output_trace_dir = folder.path()});
    for (int step = 0; step < 10; ++step) {
      work();
      profiler.step();
    }
  }
  EXPECT_EQ(ready, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 3}, {1, 7}}));
  for (const auto& [file, first] :
       std::map<std::string, int>{{"profile_0.json", 2}, {"profile_0.1.json", 6}}) {
    const auto names = names_in(read_json(folder.path() / file));
    EXPECT_EQ(count(names, "aten::mm"), 2) << file;
    EXPECT_EQ(count(names, "ProfilerStep#" + std::to_string(first)), 1) << file;
    EXPECT_EQ(count(names, "ProfilerStep#" + std::to_string(first + 1)), 1) << file;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
}

TEST(Profiler, AScheduleThatEndsInItsWarmupOrWaitGivesNoTrace) {
  for (const int steps : {0, 1, 2}) {
    int traces = 0;
    {
      Profiler profiler({.schedule_option = ProfileSchedule{.wait = 1, .warmup = 2, .active = 1},
                         .on_trace_ready = [&](ProfileTrace&) { ++traces; }});
      for (int step = 0; step < steps; ++step) profiler.step();
    }
    EXPECT_EQ(traces, 0) << steps;
  }
  Profiler profiler({.schedule_option = ProfileSchedule{.wait = 1}});
  EXPECT_NE(message_of<UsageError>([&] { (void)profiler.trace(); }).find("no finished trace yet"),
            std::string::npos);
}

TEST(Profiler, AnExceptionEndsItAndTheTraceIsThere) {
  const TemporaryFolder folder;
  try {
    Profiler profiler({.output_trace_dir = folder.path()});
    work();
    throw std::runtime_error("the loss is nan");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the loss is nan");
  }
  EXPECT_EQ(count(names_in(read_json(folder.path() / "profile_0.json")), "aten::mm"), 1);
  Profiler again;  // the first is over
}

TEST(Profiler, ThereCanBeOneInAProcess) {
  Profiler profiler;
  EXPECT_NE(message_of<UsageError>([] {
              Profiler second;
            }).find("a profiler is running in this process already"),
            std::string::npos);
  work();
  profiler.stop();
  EXPECT_EQ(calls_of(profiler.key_averages(), "aten::mm"), 1) << "the first goes on";
  EXPECT_NE(message_of<UsageError>([&] { profiler.step(); }).find("after stop()"),
            std::string::npos);
}

TEST(Profiler, RefusesActivitiesThatAreNotThere) {
  EXPECT_NE(message_of<UsageError>([] {
              Profiler none({.activities = std::vector<ProfilerActivity>{}});
            }).find("activities are empty"),
            std::string::npos);
  if (torch::cuda::is_available()) return;
  EXPECT_NE(message_of<UsageError>([] {
              Profiler cuda({.activities = std::vector{ProfilerActivity::cuda}});
            }).find("sees no GPU"),
            std::string::npos);
}

// A folder that is there at first and then is a file.
class LostFolder {
 public:
  [[nodiscard]] fs::path path() const { return folder_.path() / "traces"; }
  void lose() const {
    fs::remove_all(path());
    folder_.write("traces", "x");
  }
  void find() const { fs::remove(path()); }

 private:
  TemporaryFolder folder_;
};

TEST(Profiler, RefusesAFolderThatCannotBeWrittenToBeforeAnythingIsRecorded) {
  const TemporaryFolder folder;
  const auto file = folder.write("not_a_folder", "x");
  for (const auto& bad : {file, file / "traces"}) {
    try {
      Profiler profiler({.output_trace_dir = bad});
      FAIL() << "was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("output_trace_dir '" + bad.string() + "'"),
                std::string::npos)
          << error.what();
    }
  }
  Profiler next;  // The place is free.
}

TEST(Profiler, ATraceThatCannotBeWrittenIsAnErrorThatNamesTheFile) {
  const LostFolder folder;
  Profiler profiler({.output_trace_dir = folder.path()});
  folder.lose();
  try {
    profiler.stop();
    FAIL() << "was written";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("profile_0.json"), std::string::npos) << error.what();
  }
  folder.find();
  const testing::LogCapture log;
  EXPECT_THROW(
      {
        Profiler second({.output_trace_dir = folder.path()});
        folder.lose();
        throw DataError("the user's own");
      },
      DataError);
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("cannot be written"), std::string::npos);
}

TEST(Profiler, GoesOnAfterATraceThatCouldNotBeWritten) {
  const LostFolder folder;
  Profiler profiler({.schedule_option = ProfileSchedule{.wait = 1, .active = 1},
                     .output_trace_dir = folder.path()});
  folder.lose();
  profiler.step();
  EXPECT_THROW(profiler.step(), Error) << "the end of the first cycle";
  folder.find();
  profiler.step();
  work();
  profiler.step();
  EXPECT_EQ(calls_of(profiler.key_averages(), "aten::mm"), 1);
  EXPECT_EQ(count(names_in(read_json(folder.path() / "profile_0.1.json")), "aten::mm"), 1);
}

TEST(Profiler, ATraceCanBeWrittenTwice) {
  const TemporaryFolder folder;
  Profiler profiler;
  work();
  profiler.stop();
  profiler.trace().export_chrome_trace(folder.path() / "a.json");
  profiler.trace().export_chrome_trace(folder.path() / "b.json");
  EXPECT_EQ(read_json(folder.path() / "a.json"), read_json(folder.path() / "b.json"));
}

TEST(Profiler, KnowsShapesMemoryAndFlops) {
  Profiler profiler({.record_shapes = true, .profile_memory = true, .with_flops = true});
  const auto kept = torch::mm(torch::ones({4, 5}), torch::ones({5, 6}));
  (void)torch::mm(torch::ones({1, 5}), torch::ones({5, 1}));
  profiler.stop();
  const auto operators = profiler.key_averages(true);
  const auto found = std::ranges::find(operators, "[[4, 5], [5, 6]]", &OperatorStats::shapes);
  ASSERT_NE(found, operators.end());
  EXPECT_EQ(found->flops, 2 * 4 * 5 * 6);
  EXPECT_EQ(found->self_bytes, 4 * 6 * 4);
  const auto table = to_table(operators, {.sort_by = SortBy::calls});
  for (const auto* title :
       {"Self CPU %", "Input Shapes", "Self Mem", "FLOPs", "# of Calls", "Self CPU time total"})
    EXPECT_NE(table.find(title), std::string::npos) << title;
}

TEST(OperatorStats, SelfTimeIsTotalLessWhatIsInside) {
  const std::vector<TraceEvent> events = {{"outer", "", 1, 0, 100},
                                          {"inner", "", 1, 10, 40},
                                          {"inner", "", 1, 50, 60},
                                          {"leaf", "", 1, 12, 20},
                                          {"inner", "", 2, 15, 25}};
  const auto stats = average_by_key(events, false);
  ASSERT_EQ(stats.size(), 3u);
  EXPECT_EQ(stats[0].name, "outer");
  EXPECT_EQ(stats[0].self_cpu.count(), 60);
  EXPECT_EQ(stats[0].total_cpu.count(), 100);
  EXPECT_EQ(stats[1].calls, 3) << "of both threads";
  EXPECT_EQ(stats[1].total_cpu.count(), 50);
  EXPECT_EQ(stats[1].self_cpu.count(), 42);
}

TEST(OperatorStats, MemoryBelongsToTheInnermostOperatorAndToThoseAroundIt) {
  const std::vector<TraceEvent> events = {{"outer", "", 1, 0, 100},
                                          {"inner", "", 1, 10, 40},
                                          {"", "", 1, 20, 20, 64},
                                          {"", "", 1, 90, 90, -16},
                                          {"", "", 1, 200, 200, 7}};
  const auto stats = average_by_key(events, false);
  EXPECT_EQ(stats[0].self_bytes, -16);
  EXPECT_EQ(stats[0].total_bytes, 48);
  EXPECT_EQ(stats[1].self_bytes, 64);
}

TEST(OperatorStats, TheTableShowsTheGreatestFirstAndNoEmptyColumns) {
  const auto stats =
      average_by_key({{"slow", "", 1, 0, 3'000'000}, {"fast", "", 1, 4'000'000, 4'001'000}}, false);
  const auto table = to_table(stats, {.row_limit = 1});
  EXPECT_NE(table.find("slow"), std::string::npos);
  EXPECT_EQ(table.find("fast"), std::string::npos);
  EXPECT_NE(table.find("99.97%"), std::string::npos) << table;
  EXPECT_NE(table.find("3.000 ms"), std::string::npos);
  EXPECT_EQ(table.find("Mem"), std::string::npos);
  EXPECT_NE(table.find("Self CPU time total: 3.001 ms"), std::string::npos);
}

RANK_MAIN(profile_on_every_rank) {
  const PartialState state;
  const Profiler profiler({.output_trace_dir = std::getenv("TRACES")}, state.communicator());
  work();
  at::Tensor sum = torch::ones({3});
  state.communicator()->all_reduce(sum, ReduceOp::sum).wait();
  return 0;
}

TEST(Profiler, EveryRankWritesAFileThatSaysWhoseItIs) {
  const TemporaryFolder folder;
  for (const auto& rank : testing::run_processes(2, "profile_on_every_rank",
                                                 {.env = {{"TRACES", folder.path().string()}}}))
    ASSERT_EQ(rank.exit_code, 0) << rank.err;
  std::set<std::string> processes;
  for (const int rank : {0, 1}) {
    const auto trace = read_json(folder.path() / ("profile_" + std::to_string(rank) + ".json"));
    const auto names = names_in(trace);
    EXPECT_EQ(count(names, "aten::mm"), 1);
    EXPECT_EQ(trace.at("distributedInfo").dump(), R"({"backend":"shared_memory","rank":)" +
                                                      std::to_string(rank) + R"(,"world_size":2})");
    for (const auto& event : trace.at("traceEvents"))
      if (event.value("name", "") == "aten::mm") processes.insert(event.at("pid").dump());
  }
  EXPECT_EQ(processes.size(), 2u) << "the traces can be laid side by side";
}

RANK_MAIN(profile_on_a_rank_that_loses_its_folder) {
  const PartialState state;
  const auto folder = fs::path(std::getenv("TRACES")) / std::to_string(state.process_index());
  Profiler profiler({.output_trace_dir = folder}, state.communicator());
  if (state.process_index() == 1) {
    fs::remove_all(folder);
    std::ofstream(folder) << "x";
  }
  try {
    profiler.stop();
  } catch (const Error&) {
    return 3;
  }
  return 0;
}

TEST(Profiler, ARankThatCannotWriteDoesNotFailTheOthers) {
  const TemporaryFolder folder;
  const auto ranks = testing::run_processes(2, "profile_on_a_rank_that_loses_its_folder",
                                            {.env = {{"TRACES", folder.path().string()}}});
  EXPECT_EQ(ranks[0].exit_code, 0) << ranks[0].err;
  EXPECT_EQ(ranks[1].exit_code, 3) << ranks[1].err;
}

}  // namespace
}  // namespace accelerate
