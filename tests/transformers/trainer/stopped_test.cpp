// A training that signals stop at every step, and that goes on each time, is the one that nothing
// stops: weights, history, best checkpoint, rates, callbacks.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>

#include "accelerate/transformers/trainer/callbacks/early_stopping_callback.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate::stopping {
namespace {

using testing::TemporaryFolder;

// Counts events, and goes on counting in a resumed training.
struct Counted final : TrainerCallback {
  std::int64_t steps = 0, logs = 0, evaluations = 0, epochs = 0;
  [[nodiscard]] std::string name() const override { return "Counted"; }
  void on_step_end(TrainerEvent&) override { ++steps; }
  void on_log(TrainerEvent&, const LogValues&) override { ++logs; }
  void on_evaluate(TrainerEvent&, const LogValues&) override { ++evaluations; }
  void on_epoch_end(TrainerEvent&) override { ++epochs; }
  [[nodiscard]] std::vector<std::int64_t> counts() const {
    return {steps, logs, evaluations, epochs};
  }
  [[nodiscard]] Node state() const override {
    std::vector<Node> items;
    for (const auto count : counts()) items.push_back(Node::integer(count));
    return Node::map(
        {{"attributes", 0, Node::map({{"counts", 0, Node::sequence(std::move(items))}})}});
  }
  void load_state(const Node& state) override {
    const auto& items = state.find("attributes")->find("counts")->items;
    std::int64_t* places[] = {&steps, &logs, &evaluations, &epochs};
    for (std::size_t i = 0; i < 4; ++i) *places[i] = std::stoll(items[i].text);
  }
};

enum class Moment {
  none,
  at_the_beginning,
  before_a_step,
  in_a_step,
  behind_a_step,
  in_an_evaluation,
  behind_a_set,
  in_a_batch_of_it,
  in_a_save
};

// Signals whenever the moment comes.
struct Signals final : TrainerCallback {
  explicit Signals(Moment moment) : moment(moment) {}
  // Of several ranks one is signalled.
  void at(Moment here, const TrainerEvent& event) const {
    if (here == moment && event.state.is_world_process_zero) std::raise(SIGTERM);
  }
  void on_train_begin(TrainerEvent& event) override {
    first_step = event.state.global_step;
    at(Moment::at_the_beginning, event);
  }
  void on_epoch_begin(TrainerEvent& event) override { at(Moment::before_a_step, event); }
  void on_optimizer_step(TrainerEvent& event) override { at(Moment::in_a_step, event); }
  void on_step_end(TrainerEvent& event) override { at(Moment::behind_a_step, event); }
  void on_evaluate(TrainerEvent& event, const LogValues&) override {
    ++evaluated;
    at(Moment::in_an_evaluation, event);
  }
  // Not in an evaluation that a stop has left for this run, which would never end then.
  void on_prediction_step(TrainerEvent& event, std::optional<std::size_t>) override {
    if (event.state.global_step == first_step) return;
    at(Moment::in_a_batch_of_it, event);
    if (evaluated % 2 == 1) at(Moment::behind_a_set, event);
  }
  void on_save(TrainerEvent& event, const std::filesystem::path&) override {
    at(Moment::in_a_save, event);
  }
  Moment moment;
  std::int64_t first_step = 0, evaluated = 0;
};

// Ends the training behind a step, and says so there alone.
struct Ends final : TrainerCallback {
  void on_step_end(TrainerEvent& event) override {
    event.control.should_training_stop |= event.state.global_step == 5;
  }
};

// What a stop must not change. `saved`: the history in each checkpoint, by its name.
struct Left {
  std::vector<at::Tensor> weights;
  std::vector<std::string> history;
  std::map<std::string, std::vector<std::string>> saved;
  std::vector<std::int64_t> counts;
  std::int64_t best_step = 0, calls = 0;
};

// To the last bit.
std::vector<std::string> without_times(const std::vector<LogValues>& history) {
  std::vector<std::string> lines;
  for (const LogValues& logs : history) {
    std::string& line = lines.emplace_back();
    for (const auto& [name, value] : logs)
      if (!name.ends_with("_runtime") && !name.ends_with("_per_second"))
        line += name + " " + std::to_string(value) + " " +
                std::to_string(std::bit_cast<std::uint64_t>(value) & 0xffff) + ", ";
  }
  return lines;
}

std::map<std::string, std::vector<std::string>> saved_in(const std::filesystem::path& folder) {
  std::map<std::string, std::vector<std::string>> saved;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto file = entry.path() / "trainer_state.json";
    if (std::filesystem::exists(file))
      saved[entry.path().filename().string()] = without_times(TrainerState::load(file).log_history);
  }
  return saved;
}

// A stopped training has more checkpoints.
bool has_all_saved(const Left& left, const Left& whole) {
  return std::ranges::all_of(whole.saved, [&](const auto& one) {
    const auto found = left.saved.find(one.first);
    return found != left.saved.end() && found->second == one.second;
  });
}

using Change = std::function<void(TrainerOptions&)>;

// Trains to the end, going on after each signal.
Left train_to_the_end(const std::filesystem::path& folder, const Change& change, Moment moment) {
  for (std::int64_t calls = 1;; ++calls) {
    auto options = testing::small_training(testing::quiet_arguments(folder));
    const auto counted = std::make_shared<Counted>();
    options.callbacks = {counted, std::make_shared<Signals>(moment)};
    change(options);
    Trainer trainer(std::move(options));
    try {
      trainer.train(ResumeOption(calls > 1));
    } catch (const TrainingInterrupted& error) {
      EXPECT_EQ(error.signal(), SIGTERM);
      if (calls > 40) throw;
      continue;
    }
    const auto& state = trainer.state();
    std::string best = state.best_model_checkpoint;
    if (!best.empty()) best = std::filesystem::path(best).filename().string();
    auto history = without_times(state.log_history);
    history.push_back("best model: " + best);
    return {.weights = testing::weights_of(trainer.model()),
            .history = std::move(history),
            .saved = saved_in(folder),
            .counts = counted->counts(),
            .best_step = state.best_global_step.value_or(0),
            .calls = calls};
  }
}

struct Stopped {
  const char* name;
  std::vector<Moment> moments;
  Change change;
};

void stop_early(TrainerOptions& options, std::int64_t patience) {
  options.callbacks.push_back(std::make_shared<EarlyStoppingCallback>(
      EarlyStoppingOptions{.early_stopping_patience = patience}));
}

const std::vector<Stopped>& stopped() {
  using enum Moment;
  static const std::vector<Stopped> rows{
      {"the best of steps, on a plateau",
       {in_an_evaluation},  // And before a step: see TwoRanksStopAndGoOnTogether.
       [](TrainerOptions& o) {
         o.args.num_train_epochs = 2;
         o.args.eval_strategy = "steps";
         o.args.save_strategy = "steps";
         o.args.eval_steps = 2;
         o.args.save_steps = 4;
         o.args.logging_steps = 5;
         o.args.load_best_model_at_end = true;
         o.args.greater_is_better = true;  // Some early step is the best.
         o.args.lr_scheduler_type = "reduce_lr_on_plateau";
         o.args.lr_scheduler_kwargs.patience = 0;
       }},
      {"epochs, accumulation, out of patience",
       {behind_a_step},
       [](TrainerOptions& o) {
         o.args.num_train_epochs = 3;
         o.args.gradient_accumulation_steps = 2;
         o.args.learning_rate = 0.1;
         o.args.eval_strategy = o.args.logging_strategy = "epoch";
         o.args.save_strategy = "epoch";
         o.args.load_best_model_at_end = true;
         o.args.save_total_limit = 1;
         stop_early(o, 1);
       }},
      {"an evaluation a step, the best saved, out of patience",
       {in_a_step},
       [](TrainerOptions& o) {
         o.args.num_train_epochs = 2;
         o.args.learning_rate = 0.05;
         o.args.eval_strategy = "steps";
         o.args.eval_steps = 1;
         o.args.save_strategy = "best";
         o.args.metric_for_best_model = "loss";
         o.args.logging_steps = 4;
         o.args.eval_on_start = true;
         o.args.train_sampling_strategy = "group_by_length";
         stop_early(o, 4);
       }},
      {"epochs judged, steps saved, an end inside an epoch",
       {before_a_step},
       [](TrainerOptions& o) {
         o.args.max_steps = 8;
         o.args.eval_strategy = "epoch";
         o.args.save_strategy = "steps";
         o.args.save_steps = 3;
         o.args.metric_for_best_model = "loss";
         o.args.logging_strategy = "epoch";
       }},
      {"two sets, the best of the first saved",
       {in_a_batch_of_it, behind_a_set},
       [](TrainerOptions& o) {
         o.eval_dataset = EvalDatasets::Named{{"a", testing::small_rows(20, 50)},
                                              {"b", testing::small_rows(10, 30)}};
         o.args.num_train_epochs = 2;
         o.args.eval_strategy = "steps";
         o.args.save_strategy = "steps";
         o.args.eval_steps = 3;
         o.args.save_steps = 3;
         o.args.load_best_model_at_end = true;
         o.args.metric_for_best_model = "a_loss";
         o.args.greater_is_better = false;
         stop_early(o, 9);
       }},
      {"a callback ends it inside an epoch",
       {before_a_step},
       [](TrainerOptions& o) { o.callbacks.push_back(std::make_shared<Ends>()); }},
  };
  return rows;
}

TEST(Stopped, ATrainingThatGoesOnIsTheOneThatDidNotStop) {
  for (const Stopped& row : stopped()) {
    const TemporaryFolder folder;
    const Left whole = train_to_the_end(folder.path() / "whole", row.change, Moment::none);
    for (const Moment moment : row.moments) {
      SCOPED_TRACE(std::string(row.name) + ", moment " + std::to_string(static_cast<int>(moment)));
      const auto own = folder.path() / std::to_string(static_cast<int>(moment));
      const Left left = train_to_the_end(own, row.change, moment);
      EXPECT_GT(left.calls, 2);
      EXPECT_EQ(left.history, whole.history);
      EXPECT_TRUE(has_all_saved(left, whole));
      EXPECT_EQ(left.counts, whole.counts);
      EXPECT_EQ(left.best_step, whole.best_step);
      EXPECT_TRUE(testing::are_equal(left.weights, whole.weights));
    }
  }
}

// --- Where it ends -------------------------------------------------------------------------------

struct Ending {
  Moment moment;
  std::int64_t steps, evaluations;  // That are done when the signal has ended the training.
};

// Every step is evaluated and saved.
constexpr Ending kEndings[] = {
    {Moment::at_the_beginning, 0, 0}, {Moment::in_a_step, 1, 0}, {Moment::behind_a_step, 1, 0},
    {Moment::in_an_evaluation, 1, 1}, {Moment::in_a_save, 1, 1},
};

// Returns what differs from the expected end; "" if nothing does.
std::string fault_of(const Ending& expected, const std::filesystem::path& folder) {
  auto options = testing::small_training(testing::quiet_arguments(folder));
  options.args.eval_strategy = "steps";
  options.args.save_strategy = "steps";
  options.args.eval_steps = 1;
  options.args.save_steps = 1;
  const auto counted = std::make_shared<Counted>();
  options.callbacks = {counted, std::make_shared<Signals>(expected.moment)};
  Trainer trainer(std::move(options));
  const bool saves = expected.steps > 0;
  try {
    trainer.train();
    return "no signal ended it";
  } catch (const TrainingInterrupted& error) {
    if (error.checkpoint().empty() == saves) return error.what();
    if (saves && !std::filesystem::exists(error.checkpoint() / "manifest.json")) return "no file";
  }
  if (trainer.state().global_step == expected.steps && counted->steps == expected.steps &&
      counted->evaluations == expected.evaluations)
    return "";
  return "ended behind step " + std::to_string(counted->steps) + " and evaluation " +
         std::to_string(counted->evaluations);
}

TEST(Stopped, ATrainingEndsBehindTheStepOrEvaluationUnderWay) {
  for (const Ending& expected : kEndings) {
    const TemporaryFolder folder;
    EXPECT_EQ(fault_of(expected, folder.path()), "") << static_cast<int>(expected.moment);
  }
}

TEST(Stopped, AResumedTrainingThatIsStoppedAtTheBeginningNamesItsCheckpoint) {
  const TemporaryFolder folder;
  EXPECT_EQ(fault_of(kEndings[1], folder.path()), "");
  auto options = testing::small_training(testing::quiet_arguments(folder.path()));
  options.callbacks = {std::make_shared<Signals>(Moment::at_the_beginning)};
  Trainer trainer(std::move(options));
  try {
    trainer.train(true);
    ADD_FAILURE();
  } catch (const TrainingInterrupted& error) {
    EXPECT_EQ(error.checkpoint().filename(), "checkpoint-1");
  }
}

RANK_MAIN(stop_one_of_two_ranks) {
  const std::filesystem::path folder = std::getenv("STOPPED_FOLDER");
  const Change& change = stopped().front().change;
  const Left whole = train_to_the_end(folder / "whole", change, Moment::none);
  const Left left = train_to_the_end(folder / "cut", change, Moment::before_a_step);
  const Left broken_off = train_to_the_end(folder / "broken", change, Moment::in_a_batch_of_it);
  if (broken_off.history != whole.history || broken_off.counts != whole.counts ||
      broken_off.calls < 3 || !testing::are_equal(broken_off.weights, whole.weights))
    return 3;
  const bool is_same = left.history == whole.history && has_all_saved(left, whole) &&
                       left.counts == whole.counts &&
                       testing::are_equal(left.weights, whole.weights);
  for (const Ending& expected : kEndings) {
    const auto own = folder / std::to_string(static_cast<int>(expected.moment));
    const std::string fault = fault_of(expected, own);
    EXPECT_EQ(fault, "") << static_cast<int>(expected.moment);
    if (!fault.empty()) return 2;
  }
  return is_same && left.calls > 2 ? 0 : 1;
}

// Returns the step at which a training ends that is told in its first step, and in which nothing is
// due.
std::int64_t last_step_of(const std::filesystem::path& folder, bool looks_behind_each_step) {
  auto options = testing::small_training(testing::quiet_arguments(folder));
  options.args.logging_steps = 100;
  options.args.enable_jit_checkpoint = looks_behind_each_step;
  options.callbacks = {std::make_shared<Signals>(Moment::in_a_step)};
  Trainer trainer(std::move(options));
  try {
    trainer.train();
  } catch (const TrainingInterrupted& error) {
    if (error.exit_code() == 143) return trainer.state().global_step;
  }
  return -1;
}

RANK_MAIN(stop_with_little_time) {
  const std::filesystem::path folder = std::getenv("STOPPED_FOLDER");
  if (last_step_of(folder / "later", false) != 2) return 1;
  return last_step_of(folder / "at_once", true) == 1 ? 0 : 2;
}

TEST(Stopped, RanksWithLittleTimeMakeNoFurtherStep) {
  const TemporaryFolder folder;
  for (const auto& rank : testing::run_processes(2, "stop_with_little_time",
                                                 {.env = {{"STOPPED_FOLDER", folder.path()}}}))
    EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
}

TEST(Stopped, AProgramThatHandlesSigtermItselfCannotAskForIt) {
  const TemporaryFolder folder;
  auto options = testing::small_training(testing::quiet_arguments(folder.path()));
  options.args.enable_jit_checkpoint = true;
  Trainer trainer(std::move(options));
  std::signal(SIGTERM, SIG_IGN);
  const std::string text = testing::message_of<ConfigError>([&] { trainer.train(); });
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_NE(text.find("enable_jit_checkpoint is set, but this program handles or ignores SIGTERM"),
            std::string::npos);
}

// --- What the next run goes on from ----------------------------------------------------------------

// Counts the steps of this run alone.
struct StepsOfRun final : TrainerCallback {
  std::int64_t steps = 0;
  [[nodiscard]] std::string name() const override { return "StepsOfRun"; }
  void on_step_end(TrainerEvent&) override { ++steps; }
};

// Trains up to `max_steps`, saving every second step. Returns the number of steps that it made.
std::int64_t steps_made(const std::filesystem::path& folder, const ResumeOption& from,
                        std::int64_t max_steps) {
  auto options = testing::small_training(testing::quiet_arguments(folder));
  const auto run = std::make_shared<StepsOfRun>();
  options.args.save_strategy = "steps";
  options.args.save_steps = 2;
  options.args.max_steps = max_steps;
  options.callbacks = {run};
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.train(from).global_step, max_steps);
  return run->steps;
}

TEST(Stopped, TheSameCommandBeginsAndGoesOn) {
  const TemporaryFolder folder;
  EXPECT_EQ(steps_made(folder.path(), "last", 2), 2);
  EXPECT_EQ(steps_made(folder.path(), "Last", 4), 2);
  EXPECT_THROW((void)steps_made(folder.path() / "other", true, 4), ConfigError);
}

// Python's Trainer marks a folder while it saves on a signal. Killed then, it leaves the mark.
TEST(Stopped, ACheckpointThatPythonHasNotFinishedIsPassedOver) {
  const TemporaryFolder folder;
  EXPECT_EQ(steps_made(folder.path(), {}, 4), 4);
  folder.write("checkpoint-4/checkpoint-is-incomplete.txt", "");
  const auto named = folder.path() / "checkpoint-4";
  EXPECT_NE(testing::message_of<CheckpointError>([&] {
              (void)steps_made(folder.path(), named, 4);
            }).find("checkpoint-is-incomplete.txt: its save was cut short"),
            std::string::npos);
  auto options = testing::small_training(testing::quiet_arguments(folder.path()));
  const auto run = std::make_shared<StepsOfRun>();
  options.args.max_steps = 4;
  options.callbacks = {run};
  Trainer(std::move(options)).train(true);
  EXPECT_EQ(run->steps, 2);
  std::filesystem::remove_all(folder.path() / "checkpoint-2");
  EXPECT_THROW((void)steps_made(folder.path(), true, 4), ConfigError);
}

TEST(Stopped, TwoRanksStopAndGoOnTogether) {
  const TemporaryFolder folder;
  for (const auto& rank : testing::run_processes(2, "stop_one_of_two_ranks",
                                                 {.env = {{"STOPPED_FOLDER", folder.path()}}}))
    EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
}

}  // namespace
}  // namespace accelerate::stopping
