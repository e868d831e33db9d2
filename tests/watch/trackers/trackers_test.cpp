#include "accelerate/watch/trackers/trackers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <regex>

#include "accelerate/base/error.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::TemporaryFolder;

// Remembers what it was told, as upstream's custom tracker does.
class Recorder : public GeneralTracker {
 public:
  [[nodiscard]] std::string name() const override { return "recorder"; }
  void start() override { calls.emplace_back("start"); }
  void store_init_configuration(const ConfigMap& config) override {
    for (const auto& setting : detail::flatten(config)) {
      calls.push_back(setting.name + "=" + detail::setting_text(setting));
    }
  }
  void log(const TrackerValues& values, std::optional<std::int64_t> step) override {
    for (const auto& [name, value] : values) {
      calls.push_back(name + "@" + (step ? std::to_string(*step) : "-"));
    }
  }
  void finish() override { calls.emplace_back("finish"); }

  std::vector<std::string> calls;
};

struct OnEveryRank final : Recorder {
  [[nodiscard]] bool main_process_only() const override { return false; }
};
struct CalledCsv final : Recorder {
  [[nodiscard]] std::string name() const override { return "csv"; }
};
struct InFolder final : Recorder {
  [[nodiscard]] bool requires_logging_directory() const override { return true; }
};
struct Throwing final : Recorder {
  [[nodiscard]] std::string name() const override { return "throwing"; }
  void finish() override { throw std::runtime_error("cannot finish"); }
};

TEST(Trackers, TellACustomTrackerEverythingInOrder) {
  const auto recorder = std::make_shared<Recorder>();
  Trackers trackers({recorder}, "", true);
  EXPECT_TRUE(recorder->calls.empty()) << "started before init_trackers";
  trackers.init("project",
                {{"lr", 0.1},
                 {"net", ConfigMap{{"layers", 2}, {"bias", true}}},
                 {"sizes", ConfigValue::List{1, 2}},
                 {"seed", {}}},
                {});
  trackers.log({{"loss", 0.5}, {"epoch", 1}}, 3);
  trackers.log({{"text", "done"}}, std::nullopt);
  trackers.finish();
  EXPECT_EQ(recorder->calls,
            (std::vector<std::string>{"start", "lr=0.1", "net.layers=2", "net.bias=True",
                                      "sizes=[  1,  2]", "seed=None", "loss@3", "epoch@3", "text@-",
                                      "finish"}));
}

TEST(Trackers, MakeARegisteredClassByItsName) {
  static std::shared_ptr<Recorder> made;
  static TrackerSetup seen;
  register_tracker_class("my_recorder", {[](const TrackerSetup& setup) {
                           seen = setup;
                           return made = std::make_shared<Recorder>();
                         }});
  Trackers trackers({"my_recorder"}, "logs", true);
  EXPECT_FALSE(made) << "made before init_trackers";
  trackers.init("project", {}, {{"my_recorder", {{"colour", "red"}}}});
  ASSERT_TRUE(made);
  EXPECT_EQ(seen.run_name, "project");
  EXPECT_EQ(seen.logging_dir, "logs");
  EXPECT_EQ(seen.options.at(0).first, "colour");
  EXPECT_EQ(made->calls, std::vector<std::string>{"start"});
}

TEST(Trackers, AllIsEveryNameBesideWhatElseIsGiven) {
  const TemporaryFolder folder;
  const auto recorder = std::make_shared<Recorder>();
  register_tracker_class(
      "another_recorder",
      {[](const TrackerSetup&) { return std::make_shared<Recorder>(); }, false, true});
  const testing::ScopedEnv uri("MLFLOW_TRACKING_URI", "http://127.0.0.1:9");
  const testing::LogCapture log;
  Trackers trackers({recorder, "all", "csv"}, folder.path(), true);
  trackers.init("project", {}, {});
  for (const char* name : {"recorder", "tensorboard", "jsonl", "csv", "another_recorder"}) {
    EXPECT_EQ(std::ranges::count(trackers.active(), trackers.get(name)), 1) << name;
  }
}

TEST(Trackers, AllLeavesOutMlflowUntilAServerIsNamed) {
  const TemporaryFolder folder;
  const testing::ScopedEnv uri("MLFLOW_TRACKING_URI", nullptr);
  Trackers trackers({"all"}, folder.path(), true);
  trackers.init("project", {}, {});
  std::vector<std::string> names;
  for (const auto& tracker : trackers.active()) names.push_back(tracker->name());
  EXPECT_EQ(std::ranges::count(names, "csv"), 1);
  EXPECT_EQ(std::ranges::count(names, "mlflow"), 0);
}

TEST(Trackers, RunOnTheMainProcessOnlyUnlessTheySayOtherwise) {
  const auto here = std::make_shared<OnEveryRank>();
  const auto elsewhere = std::make_shared<Throwing>();
  Trackers trackers({here, elsewhere}, "", false);
  trackers.init("project", {}, {});
  trackers.log({{"a", 1}}, 1);
  EXPECT_EQ(here->calls, (std::vector<std::string>{"start", "a@1"}));
  EXPECT_TRUE(elsewhere->calls.empty());
  EXPECT_EQ(trackers.get("recorder"), here);
  EXPECT_EQ(trackers.get("throwing")->name(), "throwing");
  trackers.get("throwing")->log({{"a", 1}}, 1);
  EXPECT_TRUE(elsewhere->calls.empty());
  EXPECT_NO_THROW(trackers.finish());
}

TEST(Trackers, AreAllFinishedAlsoWhenOneThrows) {
  const auto recorder = std::make_shared<Recorder>();
  Trackers trackers({std::make_shared<Throwing>(), recorder}, "", true);
  trackers.init("project", {}, {});
  EXPECT_THROW(trackers.finish(), std::runtime_error);
  EXPECT_EQ(recorder->calls.back(), "finish");
  EXPECT_NO_THROW(trackers.finish()) << "a second end is none";
}

struct ThrowingInLog final : Recorder {
  [[nodiscard]] std::string name() const override { return "throwing in log"; }
  void log(const TrackerValues&, std::optional<std::int64_t>) override {
    throw std::runtime_error("cannot log");
  }
  void log_images(const TrackerImages&, std::optional<std::int64_t>) override {
    throw std::runtime_error("cannot log images");
  }
};
struct WithImages final : Recorder {
  void log_images(const TrackerImages& images, std::optional<std::int64_t>) override {
    calls.push_back(images.front().first);
  }
};

TEST(Trackers, AreAllGivenTheValuesAlsoWhenOneThrows) {
  const auto recorder = std::make_shared<WithImages>();
  Trackers trackers({std::make_shared<ThrowingInLog>(), recorder}, "", true);
  trackers.init("project", {}, {});
  EXPECT_THROW(trackers.log({{"a", 1}}, 1), std::runtime_error);
  EXPECT_THROW(trackers.log_images({{"picture", at::zeros({2, 2})}}, 1), std::runtime_error);
  EXPECT_EQ(recorder->calls, (std::vector<std::string>{"start", "a@1", "picture"}));
}

TEST(Trackers, AreFoundByTheNameTheyWereChosenBy) {
  register_tracker_class("my other recorder",
                         {[](const TrackerSetup&) { return std::make_shared<Recorder>(); }});
  Trackers trackers({"my other recorder"}, "", true);
  trackers.init("project", {}, {});
  EXPECT_EQ(trackers.get("my other recorder"), trackers.active().front());
}

TEST(Trackers, TheSameChoiceTwiceIsOne) {
  const TemporaryFolder folder;
  const auto recorder = std::make_shared<Recorder>();
  Trackers trackers({recorder, "csv", recorder, "csv"}, folder.path(), true);
  trackers.init("project", {}, {});
  EXPECT_EQ(trackers.active().size(), 2u);
}

TEST(Trackers, CanBeginAnotherRunAfterTheEnd) {
  const auto recorder = std::make_shared<Recorder>();
  Trackers trackers({recorder}, "", true);
  trackers.init("one", {}, {});
  trackers.finish();
  trackers.init("two", {}, {});
  EXPECT_EQ(recorder->calls, (std::vector<std::string>{"start", "finish", "start"}));
}

TEST(Trackers, WithoutAnyLoggingDoesNothing) {
  Trackers trackers({}, "", true);
  trackers.log({{"a", 1}}, 1);
  trackers.init("project", {{"lr", 1}}, {});
  trackers.log({{"a", 1}}, 1);
  EXPECT_TRUE(trackers.active().empty());
}

TEST(Trackers, SayOnceThatATrackerKeepsNoImages) {
  Trackers trackers({std::make_shared<Recorder>()}, "", true);
  trackers.init("project", {}, {});
  const testing::LogCapture log;
  trackers.log_images({{"x", at::zeros({2, 2})}}, 1);
  trackers.log_images({{"x", at::zeros({2, 2})}}, 2);
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("'recorder' keeps no images"), std::string::npos);
}

TEST(TrackerValue, TakesNumbersTextsAndTensorsOfOneElement) {
  const TrackerValues values = {{"a", 1},
                                {"b", 2.5F},
                                {"c", true},
                                {"d", std::size_t{3}},
                                {"e", "x"},
                                {"f", at::scalar_tensor(0.5)},
                                {"g", at::ones({1, 1}, at::kLong)},
                                {"h", std::numeric_limits<std::uint64_t>::max()}};
  EXPECT_EQ(std::get<std::int64_t>(values[0].second.as_variant()), 1);
  EXPECT_EQ(std::get<double>(values[1].second.as_variant()), 2.5);
  EXPECT_EQ(std::get<std::int64_t>(values[2].second.as_variant()), 1);
  EXPECT_EQ(std::get<std::int64_t>(values[3].second.as_variant()), 3);
  EXPECT_EQ(std::get<std::string>(values[4].second.as_variant()), "x");
  EXPECT_EQ(std::get<double>(values[5].second.as_variant()), 0.5);
  EXPECT_EQ(std::get<std::int64_t>(values[6].second.as_variant()), 1);
  EXPECT_EQ(std::get<double>(values[7].second.as_variant()), 0x1p64);
}

struct BadInput {
  const char* what;
  const char* kind;
  const char* message;  // A regular expression.
  std::function<void(const std::filesystem::path&)> run;
};

Trackers started(std::vector<LogWith> log_with, const std::filesystem::path& folder = "") {
  Trackers trackers(std::move(log_with), folder, true);
  trackers.init("project", {}, {});
  return trackers;
}

Trackers recording() {
  return started({std::make_shared<Recorder>()});
}

const std::vector<BadInput>& bad_inputs() {
  using Path = const std::filesystem::path&;
  const auto init = [](const char* tracker, const char* run, const ConfigMap& options = {}) {
    return
        [=](Path folder) { Trackers({tracker}, folder, true).init(run, {}, {{tracker, options}}); };
  };
  static const std::vector<BadInput> all = {
      {"misspelt name", "ConfigError",
       "'tensorbord', which is not a tracker.*Did you mean 'tensorboard'",
       [](Path f) { Trackers({"tensorbord"}, f, true); }},
      {"Python client", "ConfigError", "'wandb' has a client for Python only: derive",
       [](Path f) { Trackers({"wandb"}, f, true); }},
      {"null", "ConfigError", "null pointer",
       [](Path) { Trackers({std::shared_ptr<Recorder>()}, "", true); }},
      {"no folder", "ConfigError", "'csv', which writes files.*project_dir",
       [](Path) { Trackers({"csv"}, "", true); }},
      {"no folder for own", "ConfigError", "'recorder', which writes files",
       [](Path) { Trackers({std::make_shared<InFolder>()}, "", true); }},
      {"no folder for all", "ConfigError", "writes files",
       [](Path) { Trackers({"all"}, "", true); }},
      {"empty project name", "ConfigError", "project name '' is empty", init("jsonl", "")},
      {"name leads out", "ConfigError", "'../x' leads out", init("csv", "../x")},
      {"absolute name", "ConfigError", "'/x' leads out", init("tensorboard", "/x")},
      {"unknown option", "ConfigError", "no option 'flush_sec'.*Did you mean 'flush_secs'",
       init("tensorboard", "p", {{"flush_sec", 1}})},
      {"option of wrong type", "ConfigError", "'flush_secs'.*seconds above 0",
       init("csv", "p", {{"flush_secs", "x"}})},
      {"zero seconds", "ConfigError", "seconds above 0", init("csv", "p", {{"flush_secs", 0}})},
      {"options for a stranger", "ConfigError",
       "options for 'cvs', but log_with has csv.*Did you mean",
       [](Path f) { Trackers({"csv"}, f, true).init("p", {}, {{"cvs", {}}}); }},
      {"folder is a file", "ConfigError", "'jsonl' cannot write to its folder",
       [](Path f) { (void)started({"jsonl"}, f / "file"); }},
      {"log before init", "UsageError", "log\\(\\) was called before init_trackers",
       [](Path) { Trackers({std::make_shared<Recorder>()}, "", true).log({{"a", 1}}, 1); }},
      {"init twice", "UsageError", "a second time", [](Path) { recording().init("x", {}, {}); }},
      {"unknown tracker", "UsageError", "no 'recordr'.*Did you mean 'recorder'",
       [](Path) { (void)recording().get("recordr"); }},
      {"get without any", "UsageError", "no 'csv', only nothing",
       [](Path) { (void)Trackers({}, "", true).get("csv"); }},
      {"empty name", "UsageError", "name is empty", [](Path) { recording().log({{"", 1}}, 1); }},
      {"name twice", "UsageError", "two values called 'a'",
       [](Path) { recording().log({{"a", 1}, {"a", 2}}, 1); }},
      {"part twice", "UsageError", "two values called 'x'",
       [](Path) { recording().log({{"a", Scalars{{"x", 1}, {"x", 2}}}}, 1); }},
      {"not UTF-8", "UsageError", "'a' is not UTF-8",
       [](Path) { recording().log({{"a", "\xff"}}, 1); }},
      {"name not UTF-8", "UsageError", "name is not UTF-8",
       [](Path) { recording().log({{"\xff", 1}}, 1); }},
      {"big tensor", "UsageError", "tensor of 4 elements.*Histogram",
       [](Path) { recording().log({{"a", at::zeros({2, 2})}}, 1); }},
      {"undefined tensor", "UsageError", "undefined",
       [](Path) { recording().log({{"a", at::Tensor()}}, 1); }},
      {"complex number", "UsageError", "complex tensor",
       [](Path) { recording().log({{"a", at::zeros({}, at::kComplexFloat)}}, 1); }},
      {"number without data", "UsageError", "meta tensor",
       [](Path) { recording().log({{"a", at::zeros({}, at::kMeta)}}, 1); }},
      {"complex histogram", "UsageError", "histogram 'a' is of a complex",
       [](Path) { recording().log({{"a", Histogram{at::zeros({2}, at::kComplexFloat)}}}, 1); }},
      {"histogram without data", "UsageError", "histogram 'a' is of a meta",
       [](Path) { recording().log({{"a", Histogram{at::zeros({2}, at::kMeta)}}}, 1); }},
      {"log after the end", "UsageError", "log\\(\\) was called after end_training",
       [](Path) {
         auto trackers = recording();
         trackers.finish();
         trackers.log({{"a", 1}}, 1);
       }},
      {"two of one name", "ConfigError", "two trackers called 'recorder'.*name\\(\\) of its own",
       [](Path) {
         Trackers({std::make_shared<Recorder>(), std::make_shared<Recorder>()}, "", true);
       }},
      {"object with a name of ours", "ConfigError", "two trackers called 'csv'",
       [](Path f) { Trackers({"csv", std::make_shared<CalledCsv>()}, f, true); }},
      {"class that makes nothing", "ConfigError", "'nothing' made a null pointer",
       [](Path) {
         register_tracker_class("nothing",
                                {.make = [](const TrackerSetup&) { return nullptr; },
                                 .is_in_all = [](const TrackerSetup&) { return false; }});
         (void)started({"nothing"});
       }},
      {"reserved name", "UsageError", "'_step'",
       [](Path f) { started({"jsonl"}, f).log({{"_step", 1}}, 1); }},
      {"reserved column", "UsageError", "'time'",
       [](Path f) { started({"csv"}, f).log({{"time", 1}}, 1); }},
      {"ragged table", "UsageError", "2 columns and a row of 1",
       [](Path) { recording().log_table("t", {{"a", "b"}, {{1}}}, 1); }},
      {"cell that is not UTF-8", "UsageError", "'t' is not UTF-8",
       [](Path) { recording().log_table("t", {{"a"}, {{"\xff"}}}, 1); }},
      {"bad image", "UsageError", "image 'x'",
       [](Path f) { started({"tensorboard"}, f).log_images({{"x", at::zeros({3})}}, 1); }},
      {"config name twice", "UsageError", "two settings called 'lr'",
       [](Path) {
         Trackers({std::make_shared<Recorder>()}, "", true).init("p", {{"lr", 1}, {"lr", 2}}, {});
       }},
      {"register all", "UsageError", "'all'",
       [](Path) {
         register_tracker_class("all",
                                {[](const TrackerSetup&) { return std::make_shared<Recorder>(); }});
       }},
      {"register taken", "UsageError", "called 'csv' already",
       [](Path) {
         register_tracker_class("csv",
                                {[](const TrackerSetup&) { return std::make_shared<Recorder>(); }});
       }},
      {"register nothing", "UsageError", "no function",
       [](Path) { register_tracker_class("empty", {}); }},
  };
  return all;
}

TEST(Trackers, RefuseBadInputWithASentence) {
  const TemporaryFolder folder;
  folder.write("file", "");
  const testing::LogCapture log;
  for (const auto& bad : bad_inputs()) {
    try {
      bad.run(folder.path());
      ADD_FAILURE() << bad.what << ": accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), bad.kind) << bad.what;
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(bad.message)))
          << bad.what << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace accelerate
