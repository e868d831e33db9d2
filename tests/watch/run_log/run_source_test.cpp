// What is found in a run's folder, and what it comes to.
#include "accelerate/watch/run_log/run_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "accelerate/base/file_system.h"
#include "accelerate/watch/run_log/run_summary.h"
#include "tests/support/errors.h"
#include "tests/watch/run_log/runs.h"

namespace accelerate {
namespace {

using testing::a_begin;
using testing::a_log;
using testing::an_evaluation;
using testing::message_of;
using testing::RunFolder;
using testing::TemporaryFolder;

// As Python's Trainer writes it, with its bare NaN.
constexpr const char* kState = R"({
  "best_global_step": 4, "best_metric": 0.75, "best_model_checkpoint": "out/checkpoint-4",
  "epoch": 2.0, "global_step": 6, "is_local_process_zero": true,
  "log_history": [
    {"epoch": 0.67, "grad_norm": NaN, "learning_rate": 5e-05, "loss": 1.25, "step": 2},
    {"epoch": 1.0, "eval_accuracy": 0.5, "eval_loss": 0.9, "eval_runtime": 0.1, "step": 3},
    {"epoch": 1.33, "grad_norm": 2.0, "learning_rate": 2.5e-05, "loss": 1.0, "reward": 3, "step": 4},
    {"epoch": 1.33, "eval_accuracy": 0.75, "eval_loss": 0.95, "eval_runtime": 0.1, "step": 4},
    {"epoch": 2.0, "step": 6, "total_flos": 1.0, "train_loss": 1.1, "train_runtime": 12.5,
     "train_samples_per_second": 8.0, "train_steps_per_second": 0.5}],
  "logging_steps": 2, "max_steps": 6, "num_train_epochs": 2})";

TEST(TrainerState, BecomesAHistory) {
  const TemporaryFolder folder;
  const RunHistory history = read_trainer_state(folder.write("trainer_state.json", kState));
  ASSERT_EQ(history.logs.size(), 2U);
  EXPECT_TRUE(std::isnan(history.logs[0].grad_norm.value()));
  EXPECT_EQ(history.logs[1].learning_rate, 2.5e-05);
  EXPECT_EQ(history.logs[1].others, (RunMetrics{{"reward", 3}}));
  ASSERT_EQ(history.evaluations.size(), 2U);
  EXPECT_EQ(history.begin->max_steps, 6);
  EXPECT_EQ(history.step, 6);
  const RunSummary summary = summarise_run(history);
  EXPECT_EQ(summary.status, "finished");
  EXPECT_EQ(summary.seconds, 12.5);
  EXPECT_EQ(summary.samples_per_second, 8.0);
  EXPECT_EQ(summary.best->name, "eval_accuracy");  // Found by its value and step.
  EXPECT_EQ(summary.best->step, 4);
}

TEST(TrainerState, FindsCheckpointsBesideItself) {
  const TemporaryFolder folder;
  for (const char* name : {"checkpoint-2", "checkpoint-4", "checkpoint-70", "checkpoint-x"})
    std::filesystem::create_directories(folder.path() / name);
  folder.write("checkpoint-4/trainer_state.json", kState);
  for (const char* name : {".", "checkpoint-4", "checkpoint-4/trainer_state.json"}) {
    const RunSource source(folder.path() / name);
    const auto& saves = source.history().saves;
    ASSERT_EQ(saves.size(), 2U) << name;  // 70 is of another run: this one has 6 steps.
    EXPECT_EQ(saves[0].folder, "checkpoint-2");
    EXPECT_TRUE(saves[1].best);
  }
}

TEST(TrainerState, RefusesWhatIsNone) {
  const TemporaryFolder folder;
  for (const char* text : {"", "{", "[]", "{}", R"({"log_history": 7})"}) {
    const auto path = folder.write("trainer_state.json", text);
    const auto message = message_of<ConfigError>([&] { (void)read_trainer_state(path); });
    EXPECT_NE(message.find("is not a Trainer state"), std::string::npos) << text;
  }
}

TEST(RunSource, PrefersTheLogAndFollowsIt) {
  const TemporaryFolder folder;
  folder.write("trainer_state.json", kState);
  RunLogWriter writer(folder.path() / kRunLogFile);
  writer.begin(a_begin());
  RunSource source(folder.path());
  EXPECT_EQ(source.history().begin->model, "Net");
  EXPECT_FALSE(source.refresh());
  writer.log(a_log(1));
  EXPECT_TRUE(source.refresh());
  EXPECT_EQ(source.history().logs.size(), 1U);
  EXPECT_EQ(source.name(), folder.path().filename().string());
  EXPECT_EQ(source.folder(), folder.path());
}

TEST(RunSource, FollowsTheStatesOfNewCheckpoints) {
  const TemporaryFolder folder;
  folder.write("checkpoint-2/trainer_state.json", R"({"global_step": 2, "log_history": []})");
  RunSource source(folder.path());
  EXPECT_EQ(source.history().step, 2);
  EXPECT_FALSE(source.refresh());
  folder.write("checkpoint-4/trainer_state.json", R"({"global_ste)");  // Being written.
  EXPECT_FALSE(source.refresh());
  folder.write("checkpoint-4/trainer_state.json", R"({"global_step": 4, "log_history": []})");
  EXPECT_TRUE(source.refresh());
  EXPECT_EQ(source.history().step, 4);
}

TEST(RunSource, SaysWhatItLookedFor) {
  const TemporaryFolder folder;
  const auto message = [&](const std::filesystem::path& run) {
    return message_of<ConfigError>([&] { RunSource source(run); });
  };
  EXPECT_NE(message(folder.path() / "none").find("there is no folder"), std::string::npos);
  const std::string empty = message(folder.path());
  for (const char* name : {"run_log.jsonl", "trainer_state.json", "checkpoint-N"})
    EXPECT_NE(empty.find(name), std::string::npos) << empty;
  EXPECT_NE(message("").find("RUN is empty"), std::string::npos);
}

TEST(RunSummary, TellsHowARunEnded) {
  const auto status = [](const char* reason) {
    RunHistory history;
    history.add(RunEnd{.reason = reason});
    return summarise_run(history).status;
  };
  EXPECT_EQ(status("finished"), "finished");
  EXPECT_EQ(status("stopped"), "stopped early");
  EXPECT_EQ(status("SIGTERM"), "ended by SIGTERM");
  EXPECT_EQ(status("error"), "ended by an error");
}

TEST(RunSummary, TellsARunThatGoesOnFromASilentOne) {
  RunHistory history;
  history.add(a_begin());
  history.add(a_log(10));
  history.add(a_log(20));
  EXPECT_EQ(summarise_run(history).status, "running or cut off");
  EXPECT_EQ(summarise_run(history, 1060).status, "running");
  EXPECT_EQ(summarise_run(history, 1220).status, "silent for 3 min 20 s");
}

TEST(RunSummary, ReckonsTheTimeLeftFromTheNewestStretch) {
  RunHistory history;
  history.add(a_begin());  // A step a second until 50, then a pause.
  history.add(a_log(50));
  RunBegin again = a_begin(50);
  again.time = 5000;
  history.add(again);
  RunLogged log = a_log(60);  // Half a step a second.
  log.time = 5020;
  history.add(log);
  const RunSummary summary = summarise_run(history, 5020);
  EXPECT_DOUBLE_EQ(summary.steps_per_second.value(), 0.5);
  EXPECT_DOUBLE_EQ(summary.fraction.value(), 0.6);
  EXPECT_DOUBLE_EQ(summary.seconds.value(), 70);
}

TEST(RunSummary, TakesTheRateOfTheLastLogs) {
  RunHistory history;
  history.add(a_begin());
  for (int step = 1; step <= 60; ++step) {
    RunLogged log = a_log(step);  // A step a second, then four.
    log.time = step <= 30 ? 1000 + step : 1030 + (step - 30) * 0.25;
    history.add(log);
  }
  EXPECT_DOUBLE_EQ(summarise_run(history).steps_per_second.value(), 4);
}

TEST(RunSummary, FindsTheBestAsTheArgumentsSay) {
  const auto best_with = [](std::vector<NodeEntry> arguments) {
    RunHistory history;
    RunBegin begin = a_begin();
    begin.arguments = Node::map(std::move(arguments));
    history.add(begin);
    history.add(an_evaluation(1, 0.5, 0.7));
    history.add(an_evaluation(2, 0.3, 0.9));
    history.add(an_evaluation(3, std::nan(""), 0.8));
    const auto best = summarise_run(history).best;
    return best ? best->name + " " + std::to_string(best->step) : "none";
  };
  EXPECT_EQ(best_with({}), "eval_loss 2");
  EXPECT_EQ(best_with({{"metric_for_best_model", 0, Node::string("accuracy")}}), "eval_accuracy 2");
  EXPECT_EQ(best_with({{"metric_for_best_model", 0, Node::string("eval_accuracy")},
                       {"greater_is_better", 0, Node::boolean(false)}}),
            "eval_accuracy 1");
  EXPECT_EQ(best_with({{"metric_for_best_model", 0, Node::string("bleu")}}), "none");
}

TEST(RunSummary, TakesMeansOverFiniteLogs) {
  RunHistory history = testing::a_whole_run();
  history.add(RunLogged{.step = 110, .samples_per_second = std::nan(""), .memory_bytes = 4e9});
  const RunSummary summary = summarise_run(history);
  EXPECT_DOUBLE_EQ(summary.samples_per_second.value(), 32);
  EXPECT_DOUBLE_EQ(summary.memory_bytes.value(), 4e9);
  EXPECT_DOUBLE_EQ(summary.step_seconds->backward, 0.4);
  EXPECT_FALSE(summary.tokens_per_second);
}

}  // namespace
}  // namespace accelerate
