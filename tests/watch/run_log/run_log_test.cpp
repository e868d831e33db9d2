// run_log.jsonl as it is written and read.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>

#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/watch/run_log/run_event_json.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/watch/run_log/runs.h"

namespace accelerate {
namespace {

using testing::a_begin;
using testing::a_log;
using testing::file_text;
using testing::RunFolder;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void append_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

std::string log_line(int step) {
  return R"({"event":"log","step":)" + std::to_string(step) +
         R"(,"loss":0.5})"
         "\n";
}

template <typename Event>
Event through_json(const Event& event) {
  std::string line = detail::run_event_line(event);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  auto read = detail::parse_run_event(line);
  EXPECT_TRUE(read && std::holds_alternative<Event>(*read)) << line;
  return std::get<Event>(*read);
}

TEST(RunEventJson, KeepsEveryFieldOfABegin) {
  RunBegin event = a_begin(12);
  event.num_train_epochs = 3;
  event.steps_per_epoch = 34;
  event.num_processes = 2;
  event.parameters = 1'000'000'007;
  event.trained_parameters = 5;
  event.train_examples = 67'349;
  event.total_batch_size = 32;
  event.resumed_from = "checkpoint-12";
  event.strategy = "FULL_SHARD";
  event.precision = "bf16";
  event.device = "cpu";
  event.arguments = Node::map({{"learning_rate", 0, Node::real(3e-05)},
                               {"bf16", 0, Node::boolean(true)},
                               {"run_name", 0, Node::null()},
                               {"seed", 0, Node::integer(42)},
                               {"version", 0, Node::string("1.0")},
                               {"limit", 0, Node::real(kInfinity)},
                               {"fsdp", 0, Node::sequence({Node::string("auto_wrap")})}});
  event.argument_defaults = Node::map({{"seed", 0, Node::integer(42)}});
  const RunBegin read = through_json(event);
  EXPECT_EQ(detail::run_event_line(read).size(), detail::run_event_line(event).size());
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.time, 1012);
  EXPECT_EQ(read.parameters, 1'000'000'007);
  EXPECT_EQ(read.resumed_from, "checkpoint-12");
  EXPECT_EQ(read.strategy + read.precision + read.device, "FULL_SHARDbf16cpu");
  EXPECT_EQ(parse_double(read.arguments.find("learning_rate")->text), 3e-05);
  EXPECT_FALSE(read.arguments.find("seed")->quoted);
  EXPECT_TRUE(read.arguments.find("version")->quoted);
  EXPECT_TRUE(read.arguments.find("run_name")->is_null());
  EXPECT_EQ(read.arguments.find("limit")->text, "inf");
  EXPECT_EQ(read.arguments.find("fsdp")->items.at(0).text, "auto_wrap");
  EXPECT_EQ(read.argument_defaults.find("seed")->text, "42");
}

TEST(RunEventJson, KeepsNumbersThatJsonHasNot) {
  RunLogged event{.step = 3, .loss = kNan, .grad_norm = kInfinity, .learning_rate = -kInfinity};
  event.others = {{"reward", 2.5}};
  const RunLogged read = through_json(event);
  EXPECT_TRUE(std::isnan(*read.loss));
  EXPECT_EQ(read.grad_norm, kInfinity);
  EXPECT_EQ(read.learning_rate, -kInfinity);
  EXPECT_FALSE(read.epoch.has_value());
  EXPECT_EQ(read.others, event.others);
}

TEST(RunEventJson, ReadsNullAndBareNanAsNan) {
  for (const char* loss : {"null", "NaN", "\"nan\""}) {
    const auto event =
        detail::parse_run_event(std::string(R"({"event":"log","loss":)") + loss + "}");
    ASSERT_TRUE(event) << loss;
    EXPECT_TRUE(std::isnan(std::get<RunLogged>(*event).loss.value())) << loss;
  }
  const auto event =
      detail::parse_run_event(R"({"event":"log","loss":-Infinity,"a":"NaN \" NaN"})");
  EXPECT_EQ(std::get<RunLogged>(*event).loss, -kInfinity);
}

TEST(RunEventJson, TakesFieldsOfOtherTypesForMissing) {
  const auto event = detail::parse_run_event(
      R"({"event":"log","step":"x","time":[1],"loss":{},"grad_norm":true,"step_seconds":7,"epoch":"two"})");
  const auto& log = std::get<RunLogged>(event.value());
  EXPECT_EQ(log.step, 0);
  EXPECT_FALSE(log.time || log.loss || log.grad_norm || log.step_seconds || log.epoch);
}

TEST(RunEventJson, RefusesWhatIsNoEvent) {
  for (const char* line : {"", "{", "[]", "7", "null", R"({"event":"party"})", R"({"step":1})",
                           R"({"event":5})", "{\"event\":\"log\",\"a\":\"\xff\"}"})
    EXPECT_FALSE(detail::parse_run_event(line)) << line;
}

TEST(RunEventJson, TakesNestingWithoutEnd) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const auto event = detail::parse_run_event(R"({"event":"begin","arguments":{"a":)" + deep + "}}");
  ASSERT_TRUE(event);
  EXPECT_TRUE(std::get<RunBegin>(*event).arguments.find("a")->is_sequence());
}

TEST(RunLogWriter, AppendsALineAnEventWithTheTime) {
  const RunFolder run;
  RunLogWriter writer(run.log());
  writer.begin({.max_steps = 5});
  EXPECT_EQ(run.read().begin->max_steps, 5);  // At once.
  writer.log({.step = 1, .loss = 0.25});
  writer.save({.step = 1, .time = 7, .folder = "checkpoint-1", .best = true});
  RunLogWriter(run.log()).end({.step = 1, .reason = "stopped"});
  const RunHistory history = run.read();
  const double now = static_cast<double>(std::time(nullptr));
  EXPECT_NEAR(history.logs.at(0).time.value(), now, 60);
  EXPECT_EQ(history.saves.at(0).time, 7);
  EXPECT_EQ(history.end->reason, "stopped");
  EXPECT_EQ(history.ignored_lines, 0U);
}

TEST(RunLogWriter, EndsTheLineThatAKilledRunCut) {
  const RunFolder run;
  append_text(run.log(), log_line(1) + R"({"event":"log","st)");
  RunLogWriter(run.log()).begin(a_begin(1));
  const RunHistory history = run.read();
  EXPECT_EQ(history.logs.size(), 1U);
  EXPECT_EQ(history.begin->step, 1);
  EXPECT_EQ(history.ignored_lines, 1U);
}

TEST(RunLogWriter, KeepsTextOnItsLineAndWithinBounds) {
  const RunFolder run;
  RunLogWriter writer(run.log());
  writer.note({.text = "a\nb\xff" + std::string(100'000, 'x'), .level = "warning"});
  EXPECT_EQ(run.read().notes.at(0).text.substr(0, 6), "a\nb\xEF\xBF\xBD");
  EXPECT_EQ(run.read().notes.at(0).text.size(), (64U << 10) + 2);
  RunBegin begin;
  begin.arguments = Node::map({{"a", 0, Node::string(std::string(2 << 20, 'x'))}});
  const auto message = testing::message_of<UsageError>([&] { writer.begin(begin); });
  EXPECT_NE(message.find("leave long arguments out"), std::string::npos) << message;
  EXPECT_EQ(run.read().notes.size(), 1U);
}

TEST(RunLogWriter, RefusesWhatIsNoFile) {
  const RunFolder run;
  EXPECT_THROW(RunLogWriter(run.path()), FileError);
  EXPECT_THROW(RunLogWriter(run.path() / "none" / "log"), FileError);
  EXPECT_THROW(RunLogWriter("/dev/full"), FileError);
}

TEST(RunLogReader, WaitsForTheEndOfALine) {
  const RunFolder run;
  const std::string line = log_line(7);
  RunLogReader reader(run.log());
  EXPECT_FALSE(reader.poll());
  for (std::size_t i = 0; i < line.size(); ++i) {
    EXPECT_TRUE(reader.history().logs.empty());
    append_text(run.log(), line.substr(i, 1));
    EXPECT_TRUE(reader.poll());
  }
  EXPECT_EQ(reader.history().logs.at(0).step, 7);
  EXPECT_FALSE(reader.poll());
  EXPECT_EQ(reader.history().logs.size(), 1U);
}

TEST(RunLogReader, StartsOverWhenTheFileIsReplacedCutOrWrittenAnew) {
  const RunFolder run;
  RunLogReader reader(run.log());
  const auto steps_after = [&](const std::string& text) {
    append_text(run.log(), text);
    EXPECT_TRUE(reader.poll());
    std::string steps;
    for (const auto& log : reader.history().logs) steps += std::to_string(log.step) + " ";
    return steps;
  };
  EXPECT_EQ(steps_after(log_line(1) + log_line(2)), "1 2 ");
  std::filesystem::resize_file(run.log(), log_line(1).size());
  EXPECT_EQ(steps_after(""), "1 ");
  std::filesystem::remove(run.log());
  EXPECT_FALSE(reader.poll());
  EXPECT_EQ(steps_after(log_line(3) + log_line(4)), "3 4 ");
  std::filesystem::resize_file(run.log(), 0);  // Written anew, and longer than before.
  EXPECT_EQ(steps_after(log_line(5) + log_line(6) + log_line(7)), "5 6 7 ");
}

TEST(RunLogReader, SkipsDamageAndLinesThatAreTooLong) {
  const RunFolder run;
  append_text(run.log(), log_line(1) + "nonsense\n\n  \r\n" + std::string(3 << 20, '{') + "\n" +
                             log_line(2) + std::string("\0\0\0\n", 4) + log_line(3));
  const RunHistory history = run.read();
  EXPECT_EQ(history.logs.size(), 3U);
  EXPECT_EQ(history.ignored_lines, 3U);
}

TEST(RunLogReader, DoesNotWaitForAPipe) {
  const RunFolder run;
  ASSERT_EQ(::mkfifo(run.log().c_str(), 0600), 0);
  EXPECT_THROW((void)run.read(), FileError);
}

TEST(RunLogReader, ReadsAHundredThousandEvents) {
  const RunFolder run;
  std::string text;
  for (int step = 1; step <= 100'000; ++step) text += detail::run_event_line(a_log(step));
  append_text(run.log(), text);
  const auto start = std::chrono::steady_clock::now();
  const RunHistory history = run.read();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(history.logs.size(), 100'000U);
  EXPECT_EQ(history.logs.back().loss, a_log(100'000).loss);
  EXPECT_LT(time.count(), 20);
}

TEST(RunHistory, ForgetsStepsThatAreDoneAgain) {
  RunHistory history;
  history.add(a_begin());
  for (const int step : {10, 20, 30}) {
    history.add(a_log(step));
    history.add(testing::an_evaluation(step, 0.5, 0.5));
    history.add(RunSaved{.step = step, .folder = "checkpoint-" + std::to_string(step)});
    history.add(RunNote{.step = step, .text = "a"});
  }
  history.add(RunEnd{.step = 30, .reason = "SIGTERM"});
  history.add(a_begin(20));
  EXPECT_EQ(history.logs.back().step, 20);
  EXPECT_EQ(history.evaluations.size(), 2U);
  EXPECT_EQ(history.saves.size(), 2U);
  EXPECT_EQ(history.notes.size(), 2U);
  EXPECT_FALSE(history.end);
  EXPECT_EQ(history.step, 20);
  history.add(a_log(30));
  EXPECT_EQ(history.logs.size(), 3U);
  EXPECT_EQ(history.segments.size(), 2U);
  history.add(a_begin(0));
  EXPECT_TRUE(history.logs.empty() && history.saves.empty());
  EXPECT_EQ(history.segments.size(), 1U);
}

TEST(RunHistory, JoinsEvaluationsOfOneStepWithDifferentNames) {
  RunHistory history;
  history.add(RunEvaluated{.step = 5, .metrics = {{"eval_a_loss", 1}}});
  history.add(RunEvaluated{.step = 5, .metrics = {{"eval_b_loss", 2}}});
  history.add(RunEvaluated{.step = 5, .metrics = {{"eval_b_loss", 3}}});
  ASSERT_EQ(history.evaluations.size(), 2U);
  EXPECT_EQ(history.evaluations[0].metrics, (RunMetrics{{"eval_a_loss", 1}, {"eval_b_loss", 2}}));
}

TEST(RunHistory, IsBounded) {
  RunHistory history;
  for (int i = 1; i <= 1'500'000; ++i) history.add(RunLogged{.step = i});
  for (int i = 1; i <= 50'000; ++i) history.add(RunNote{.step = i});
  EXPECT_LE(history.logs.size(), std::size_t{1} << 20);
  EXPECT_EQ(history.logs.back().step, 1'500'000);
  EXPECT_LE(history.logs.front().step, 2);
  EXPECT_LE(history.notes.size(), 20'000U);
  EXPECT_EQ(history.notes.back().step, 50'000);
}

}  // namespace
}  // namespace accelerate
