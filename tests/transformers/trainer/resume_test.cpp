// Going on with other batches than a checkpoint was made with, where nothing is left, and into a
// folder that has an older run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "accelerate/formats/manifest.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate::resuming {
namespace {

using std::filesystem::exists;
using testing::message_of;
using testing::TemporaryFolder;

using Change = std::function<void(TrainingArguments&)>;

// Stops behind a step, as if the process had been killed there.
struct StopsBehind final : TrainerCallback {
  explicit StopsBehind(std::int64_t step) : step(step) {}
  void on_save(TrainerEvent& event, const std::filesystem::path&) override {
    if (event.state.global_step == step) event.control.should_training_stop = true;
  }
  std::int64_t step;
};

// Rows whose first token is their number, so that a loss can tell which ones it sees.
Dataset numbered_rows(std::size_t count) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> ids(3 + i * 5 % 7, 1);
    ids.front() = static_cast<std::int64_t>(i);
    const std::vector<std::int64_t> mask(ids.size(), 1);
    rows.push_back(Row{{"input_ids", ids}, {"attention_mask", mask}, {"label", std::int64_t{0}}});
  }
  return Dataset::from_rows(rows);
}

struct Trained {
  TrainOutput output = {};
  TrainerState state = {};
  std::vector<std::string> warnings = {};
};

// The rows that steps saw, in order.
using Seen = std::vector<std::int64_t>;

TrainerOptions numbered_training(TrainingArguments args, Seen& seen, bool streams) {
  auto options = testing::small_training(std::move(args));
  const Dataset rows = numbered_rows(22);
  if (streams) {
    options.train_dataset = IterableDataset([rows](std::size_t) {
      return [rows, next = std::size_t{0}]() mutable -> std::optional<Row> {
        return next < rows.size() ? std::optional<Row>(rows[next++]) : std::nullopt;
      };
    });
  } else {
    options.train_dataset = rows;
  }
  options.data_collator = [&seen](std::vector<Row> batch) {
    for (const Row& row : batch) seen.push_back(row["input_ids"].integers().front());
    return testing::pad_rows(std::move(batch));
  };
  return options;
}

Trained train(TrainerOptions options, const ResumeOption& from) {
  const testing::LogCapture log;
  Trainer trainer(std::move(options));
  Trained trained{.output = trainer.train(from)};
  trained.state = trainer.state();
  trained.warnings = log.lines();
  return trained;
}

bool says(const std::string& line, const std::string& text) {
  return line.find(text) != std::string::npos;
}

bool has(const std::vector<std::string>& lines, const std::string& text) {
  return std::ranges::any_of(lines, [&](const auto& line) { return says(line, text); });
}

struct OtherBatches {
  const char* name;
  std::int64_t stop;    // The step to stop behind; 6 steps of 4 rows are an epoch.
  Change before, then;  // Of the arguments, in the first call and in the second.
  std::int64_t steps;   // Of the whole training, over 2 epochs.
  bool streams = false;
};

const std::vector<OtherBatches>& other_batches() {
  using A = TrainingArguments;
  const Change none = [](A&) {};
  const auto size = [](std::int64_t rows) {
    return [rows](A& args) { args.per_device_train_batch_size = rows; };
  };
  const auto accumulation = [](std::int64_t batches) {
    return [batches](A& args) { args.gradient_accumulation_steps = batches; };
  };
  const auto strategy = [](const char* name, std::int64_t rows) {
    return [name, rows](A& args) {
      args.train_sampling_strategy = name;
      args.per_device_train_batch_size = rows;
    };
  };
  const auto tokens = [](std::int64_t count) {
    return [count](A& args) { args.max_tokens_per_batch = count; };
  };
  static const std::vector<OtherBatches> rows{
      // 8 rows are trained; 14 are left, and then 22.
      {"larger batches", 2, none, size(8), 2 + 2 + 3},
      {"smaller batches, which are no part of the larger ones", 2, none, size(3), 2 + 5 + 8},
      {"accumulation", 2, none, accumulation(2), 2 + 2 + 3},
      {"less accumulation", 1, accumulation(2), accumulation(1), 1 + 4 + 6},
      {"the end of an epoch", 6, none, size(8), 6 + 3},
      {"the second epoch", 8, none, size(8), 8 + 2},
      {"batches by length", 2, strategy("group_by_length", 4), strategy("group_by_length", 8), 7},
      {"batches by length, rebalanced", 2, strategy("batch_rebalance", 4),
       strategy("batch_rebalance", 2), 2 + 7 + 11},
      {"batches of so many tokens", 2, tokens(28), tokens(40), 0},
      {"a stream", 2, none, size(7), 0, true},
  };
  return rows;
}

// Every row is trained once an epoch, and the rows of the first epoch that were trained before are
// not trained again.
TEST(Resume, GoesOnBehindTheSamplesThatWereTrainedWithOtherBatches) {
  for (const OtherBatches& row : other_batches()) {
    SCOPED_TRACE(row.name);
    const TemporaryFolder folder;
    auto args = testing::quiet_arguments(folder.path());
    args.num_train_epochs = 2;
    if (row.streams) args.max_steps = 6;
    args.save_strategy = "steps";
    args.save_steps = static_cast<double>(row.stop);
    Seen seen;
    row.before(args);
    auto options = numbered_training(args, seen, row.streams);
    options.callbacks = {std::make_shared<StopsBehind>(row.stop)};
    train(std::move(options), {});
    row.then(args);
    args.save_strategy = "no";
    const auto resumed = train(numbered_training(args, seen, row.streams), true);
    if (row.steps > 0) {
      EXPECT_EQ(resumed.output.global_step, row.steps);
      EXPECT_EQ(resumed.state.max_steps, row.steps);
    }
    EXPECT_TRUE(has(resumed.warnings, "this training makes steps of"));
    EXPECT_DOUBLE_EQ(resumed.state.epoch, row.streams ? resumed.state.epoch : 2.0);
    std::map<std::int64_t, int> counts;
    for (std::size_t i = 0; i < (row.streams ? 22 : seen.size()); ++i) ++counts[seen[i]];
    for (std::int64_t i = 0; i < 22; ++i) EXPECT_EQ(counts[i], row.streams ? 1 : 2) << "row " << i;
  }
}

TrainingArguments arguments_by_tokens(const std::filesystem::path& folder) {
  auto args = testing::quiet_arguments(folder);
  args.max_tokens_per_batch = 32;
  args.num_train_epochs = 3;
  args.save_strategy = "steps";
  args.save_steps = 1;
  return args;
}

// With batches of so many tokens epochs have batches of different numbers, as their orders differ.
TEST(Resume, TrainsAllBatchesOfEpochsThatHaveOtherNumbersOfThem) {
  const TemporaryFolder folder;
  Seen seen;
  auto args = arguments_by_tokens(folder.path());
  Trainer whole(numbered_training(args, seen, false));
  whole.train();
  std::map<std::int64_t, int> counts;
  for (const std::int64_t row : seen) ++counts[row];
  for (std::int64_t i = 0; i < 22; ++i) EXPECT_EQ(counts[i], 3) << "row " << i;
  const auto& state = whole.state();
  EXPECT_EQ(state.global_step, state.max_steps);
  EXPECT_DOUBLE_EQ(state.epoch, 3.0);
  std::map<double, int> steps;
  for (const double epoch : testing::logged(state, "epoch")) ++steps[std::ceil(epoch - 1e-9)];
  const auto weights = testing::weights_of(whole.model());
  EXPECT_NE(steps[1], steps[3]) << "this data does not show what it is to show";
  args.save_strategy = "no";
  for (std::int64_t step = 2; step < state.global_step; step += 4) {
    Trainer resumed(numbered_training(args, seen, false));
    resumed.train(folder.path() / ("checkpoint-" + std::to_string(step)));
    EXPECT_TRUE(testing::are_equal(testing::weights_of(resumed.model()), weights))
        << "from step " << step;
    EXPECT_EQ(testing::logged(resumed.state(), "epoch"), testing::logged(state, "epoch"));
    EXPECT_EQ(resumed.state().max_steps, state.max_steps);
  }
}

TEST(Resume, CountsTheStepsOfEachEpochForMaxStepsToo) {
  const TemporaryFolder folder;
  Seen seen;
  auto args = arguments_by_tokens(folder.path());
  args.max_steps = 18;  // All but one of three epochs.
  Trainer trainer(numbered_training(args, seen, false));
  trainer.train();
  EXPECT_EQ(trainer.state().num_train_epochs, 3);
  EXPECT_LT(trainer.state().epoch, 3.0);
  EXPECT_GT(trainer.state().epoch, 2.8);
}

// --- Ranks that get unequally many batches -------------------------------------------------------

TrainingArguments uneven_arguments(const std::filesystem::path& folder) {
  auto args = testing::quiet_arguments(folder);
  args.per_device_train_batch_size = 3;
  args.accelerator_config.even_batches = false;
  args.num_train_epochs = 2;
  return args;
}

// A step is 6 rows. Of 22 rows the last 4 are 3 for the first rank and 1 for the second; of 19 the
// last one is for the first rank alone. Behind 3 steps of 3 rows 13 are left.
RANK_MAIN(train_on_unequal_shares) {
  const std::filesystem::path folder = std::getenv("UNEVEN_FOLDER");
  const auto steps = [&](std::size_t rows, const char* name, const char* strategy, bool resumes) {
    Seen seen;
    auto args = uneven_arguments(folder / name);
    args.train_sampling_strategy = strategy;
    auto options = numbered_training(args, seen, false);
    options.train_dataset = numbered_rows(rows);
    Trainer trainer(std::move(options));
    const auto step = trainer.train(ResumeOption(resumes)).global_step;
    return trainer.state().epoch == 2 ? step : -1;
  };
  EXPECT_EQ(steps(22, "two shares", "random", false), 8);
  EXPECT_EQ(steps(19, "one share", "random", false), 6);
  EXPECT_EQ(steps(19, "by length", "group_by_length", false), 6);
  EXPECT_EQ(steps(22, "resumed", "random", true), 3 + 2 + 4);
  return ::testing::Test::HasFailure() ? 1 : 0;
}

TEST(Resume, RanksThatGetUnequallyManyBatchesEndAnEpochTogether) {
  const TemporaryFolder folder;
  auto args = uneven_arguments(folder.path() / "resumed");
  args.save_strategy = "steps";
  args.save_steps = 3;
  Seen seen;
  auto options = numbered_training(args, seen, false);
  options.callbacks = {std::make_shared<StopsBehind>(3)};
  train(std::move(options), {});
  for (const auto& rank : testing::run_processes(2, "train_on_unequal_shares",
                                                 {.env = {{"UNEVEN_FOLDER", folder.path()}}})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
  }
}

// A second change, or a second stop, in an epoch whose rest was cut anew.
TEST(Resume, GoesOnInsideARestThatWasCutAnew) {
  for (const char* strategy : {"random", "batch_rebalance"}) {
    SCOPED_TRACE(strategy);
    const TemporaryFolder folder;
    auto args = testing::quiet_arguments(folder.path());
    args.train_sampling_strategy = strategy;
    args.save_strategy = "steps";
    args.save_steps = 1;
    Seen seen;
    std::int64_t step = 0;
    for (const std::int64_t size : {4, 2, 2, 5}) {
      args.per_device_train_batch_size = size;
      auto options = numbered_training(args, seen, false);
      options.callbacks = {std::make_shared<StopsBehind>(step + 1)};
      step = train(std::move(options), step > 0).output.global_step;
    }
    args.save_strategy = "no";
    train(numbered_training(args, seen, false), true);
    EXPECT_EQ(seen.size(), 22U);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 22U);
  }
}

TEST(Resume, RefusesWhatHasNoMeaningAndBeginsTheEpochAnewWhereAsked) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 2;
  Seen seen;
  auto options = numbered_training(args, seen, false);
  options.callbacks = {std::make_shared<StopsBehind>(2)};
  train(std::move(options), {});
  args.train_sampling_strategy = "group_by_length";
  const auto message =
      message_of<CheckpointError>([&] { train(numbered_training(args, seen, false), true); });
  EXPECT_TRUE(says(message, "with train_sampling_strategy 'random'")) << message;
  EXPECT_TRUE(says(message, "ignore_data_skip")) << message;
  args.per_device_train_batch_size = 8;
  args.ignore_data_skip = true;
  EXPECT_EQ(train(numbered_training(args, seen, false), true).output.global_step, 2 + 3);
}

TEST(Resume, DoesBehindItsFirstStepWhatACallbackAskedForAtTheBeginning) {
  struct Asks final : TrainerCallback {
    void on_train_begin(TrainerEvent& event) override { event.control.should_evaluate = true; }
    void on_evaluate(TrainerEvent& event, const LogValues&) override {
      steps.push_back(event.state.global_step);
    }
    std::vector<std::int64_t> steps;
  };
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 2;
  std::vector<std::int64_t> steps;
  for (const bool resumes : {false, true}) {
    const auto asks = std::make_shared<Asks>();
    auto options = testing::small_training(args);
    options.callbacks = {asks};
    if (!resumes) options.callbacks.push_back(std::make_shared<StopsBehind>(2));
    train(std::move(options), resumes ? ResumeOption(true) : ResumeOption());
    steps.insert(steps.end(), asks->steps.begin(), asks->steps.end());
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 3}));
}

// A checkpoint of before training_loop.json was written, which counts steps alone.
void forget_the_loop(const std::filesystem::path& checkpoint) {
  Manifest manifest = read_manifest(real_file_system(), checkpoint);
  std::erase_if(manifest.files, [](const auto& file) { return file.name == "training_loop.json"; });
  std::filesystem::remove(checkpoint / "training_loop.json");
  write_manifest(real_file_system(), checkpoint, manifest);
}

TEST(Resume, OfStepsAloneWithOtherBatchesGoesOnFromTheEndOfAnEpochOnly) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.num_train_epochs = 2;
  args.save_strategy = "steps";
  args.save_steps = 2;
  Seen seen;
  Trainer(numbered_training(args, seen, false)).train();  // 6 steps of 4 rows are an epoch.
  for (const char* step : {"4", "6"})
    forget_the_loop(folder.path() / (std::string("checkpoint-") + step));
  args.save_strategy = "no";
  args.per_device_train_batch_size = 8;
  const auto resume = [&](const char* step) {
    return train(numbered_training(args, seen, false),
                 folder.path() / (std::string("checkpoint-") + step));
  };
  const auto message = message_of<CheckpointError>([&] { resume("4"); });
  EXPECT_TRUE(says(message, "at step 4 is inside an epoch")) << message;
  EXPECT_EQ(resume("6").output.global_step, 6 + 3);
  args.ignore_data_skip = true;
  EXPECT_EQ(resume("4").output.global_step, 4 + 3 + 3);
  args.ignore_data_skip = false;
  args.per_device_train_batch_size = 4;
  EXPECT_EQ(resume("4").output.global_step, 12);
}

TEST(Resume, SaysWhenAndWhyNothingIsLeftToTrain) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "epoch";
  Trainer(testing::small_training(args)).train();
  const auto by_epochs = train(testing::small_training(args), true);
  EXPECT_TRUE(has(by_epochs.warnings, "nothing was trained: the checkpoint has done 6 steps"));
  EXPECT_TRUE(has(by_epochs.warnings, "raise num_train_epochs"));
  EXPECT_EQ(by_epochs.output.metrics.find("train_loss"), nullptr);
  args.max_steps = 3;
  EXPECT_TRUE(has(train(testing::small_training(args), true).warnings, "raise max_steps"));
}

// --- An older run in the folder ------------------------------------------------------------------

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_directory()) names.insert(entry.path().filename().string());
  return names;
}

// A folder as Python's Trainer writes it, as far as its names go.
void write_python_checkpoint(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const char* name : {"trainer_state.json", "optimizer.pt", "scheduler.pt", "rng_state.pth",
                           "model.safetensors", "config.json", "training_args.bin"})
    std::ofstream(folder / name) << "{\"global_step\": 1}";
}

// The losses of all steps, as they were logged.
std::vector<double> losses_in(const TrainerState& state) {
  std::vector<double> losses;
  for (const auto& row : state.log_history)
    if (const double* loss = row.find("loss"); loss != nullptr) losses.push_back(*loss);
  return losses;
}

// As under --max_restarts, where the launcher starts a program again with the same arguments.
TEST(Restarted, GoesOnFromWhatItsLaunchHasSaved) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 1;
  args.max_steps = 4;
  const testing::ScopedEnv earlier("ACCELERATE_LAUNCH_ID", "0000000000000000");
  Trainer(testing::small_training(args)).train();  // 1 to 4, of an older launch.
  args.overwrite_output_dir = true;
  Seen whole, first, second;
  const TemporaryFolder other;
  auto uninterrupted = args;
  uninterrupted.output_dir = other.path();
  const auto expected = train(numbered_training(uninterrupted, whole, false), {});
  const testing::ScopedEnv launch("ACCELERATE_LAUNCH_ID", "1111111111111111");
  {
    const testing::ScopedEnv again("TORCHELASTIC_RESTART_COUNT", "1");
    auto options = numbered_training(args, first, false);
    options.callbacks = {std::make_shared<StopsBehind>(2)};
    const auto begun = train(std::move(options), {});  // Nothing of this launch is there.
    EXPECT_EQ(begun.state.global_step, 2);
  }
  const testing::ScopedEnv again("TORCHELASTIC_RESTART_COUNT", "2");
  const auto resumed = train(numbered_training(args, second, false), {});
  EXPECT_EQ(resumed.state.global_step, 4);
  first.insert(first.end(), second.begin(), second.end());
  EXPECT_EQ(first, whole) << "no row twice and none left out";
  EXPECT_EQ(losses_in(resumed.state), losses_in(expected.state));
}

TEST(Overwrite, DropsTheOlderRunWhenTheFirstCheckpointIsComplete) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 2;
  Trainer(testing::small_training(args)).train();
  write_python_checkpoint(folder.path() / "checkpoint-3");
  write_python_checkpoint(folder.path() / "checkpoint-90");
  const std::set<std::string> older = names_in(folder.path());
  ASSERT_EQ(older.size(), 5U);
  const auto message =
      message_of<ConfigError>([&] { Trainer(testing::small_training(args)).train(); });
  EXPECT_TRUE(says(message, "--overwrite_output_dir")) << message;
  EXPECT_TRUE(says(message, "resume_from_checkpoint")) << message;

  struct Looks final : TrainerCallback {
    void on_step_end(TrainerEvent& event) override {
      seen.push_back(names_in(event.args.output_dir));
    }
    std::vector<std::set<std::string>> seen;
  };
  const auto looks = std::make_shared<Looks>();
  args.overwrite_output_dir = true;
  args.save_steps = 3;
  auto options = testing::small_training(args);
  options.callbacks = {looks};
  Trainer(std::move(options)).train();
  EXPECT_EQ(looks->seen[2], older) << "before the first checkpoint";
  EXPECT_EQ(looks->seen[3], (std::set<std::string>{"checkpoint-3"})) << "behind it";
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"checkpoint-3", "checkpoint-6"}));
}

TEST(Overwrite, DropsWhatIsBehindTheStepToGoOnFrom) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 2;
  args.max_steps = 4;
  Trainer(testing::small_training(args)).train();
  write_python_checkpoint(folder.path() / "checkpoint-5");
  const auto from = folder.path() / "checkpoint-2";
  const auto message =
      message_of<ConfigError>([&] { Trainer(testing::small_training(args)).train(from); });
  EXPECT_TRUE(says(message, "checkpoint-5")) << message;
  EXPECT_TRUE(says(message, "--overwrite_output_dir")) << message;
  args.overwrite_output_dir = true;
  args.save_steps = 3;
  Trainer(testing::small_training(args)).train(from);
  EXPECT_EQ(names_in(folder.path()),
            (std::set<std::string>{"checkpoint-2", "checkpoint-3", "checkpoint-4"}));
}

TEST(Overwrite, DropsTheOlderRunAtTheEndOfOneWithoutCheckpoints) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 3;
  Trainer(testing::small_training(args)).train();
  args.save_strategy = "no";
  args.overwrite_output_dir = true;
  Trainer(testing::small_training(args)).train();
  EXPECT_EQ(names_in(folder.path()).count("checkpoint-6"), 0U);
  EXPECT_EQ(names_in(folder.path()).count("checkpoint-3"), 0U);
  EXPECT_FALSE(exists(folder.path() / ".overwriting.json"));
  const auto message =
      message_of<ConfigError>([&] { Trainer(testing::small_training(args)).train(true); });
  EXPECT_TRUE(says(message, "has none")) << message;
}

TEST(Overwrite, LosesNoFileThatIsNotOfACheckpoint) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.overwrite_output_dir = true;
  args.save_strategy = "epoch";
  write_python_checkpoint(folder.path() / "checkpoint-6");
  std::ofstream(folder.path() / "checkpoint-6" / "notes.txt") << "mine";
  const auto message =
      message_of<ConfigError>([&] { Trainer(testing::small_training(args)).train(); });
  EXPECT_TRUE(says(message, "notes.txt")) << message;
  EXPECT_TRUE(exists(folder.path() / "checkpoint-6" / "notes.txt"));
}

TEST(Overwrite, PassesOverANoteThatIsNotWhole) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.max_steps = 1;
  std::ofstream(folder.path() / ".overwriting.json") << R"({"run": "a", "ol)";
  EXPECT_EQ(train(testing::small_training(args), {}).output.global_step, 1);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / ".overwriting.json"));
}

// A process that is killed between its first checkpoint and the end of the removal.
TEST(Overwrite, TellsTheRunsApartWhenItWasKilledBetween) {
  const TemporaryFolder folder, copy;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 2;
  Trainer(testing::small_training(args)).train();  // 2, 4, 6.
  std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
  args.overwrite_output_dir = true;
  args.max_steps = 3;
  args.save_steps = 3;
  std::string note;
  struct Notes final : TrainerCallback {
    explicit Notes(std::string& note) : note(note) {}
    void on_step_end(TrainerEvent& event) override {
      std::ifstream file(std::filesystem::path(event.args.output_dir) / ".overwriting.json");
      note.assign(std::istreambuf_iterator<char>(file), {});
    }
    std::string& note;
  };
  auto options = testing::small_training(args);
  options.callbacks = {std::make_shared<Notes>(note)};
  Trainer(std::move(options)).train();
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"checkpoint-3"}));
  // As it was then: the older ones are still there, and the note.
  for (const char* name : {"checkpoint-2", "checkpoint-4", "checkpoint-6"})
    std::filesystem::copy(copy.path() / name, folder.path() / name,
                          std::filesystem::copy_options::recursive);
  std::ofstream(folder.path() / ".overwriting.json") << note;
  std::filesystem::rename(folder.path() / "checkpoint-3",
                          folder.path() / ".checkpoint-old-checkpoint-3");  // Put aside by a save.
  args.overwrite_output_dir = false;
  args.max_steps = 4;
  const auto resumed = train(testing::small_training(args), true);
  EXPECT_EQ(resumed.state.log_history.front().find("step") != nullptr, true);
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"checkpoint-3", "checkpoint-4"}));
}

// A process that is killed before its first checkpoint.
TEST(Overwrite, KeepsTheOlderRunWhileTheNewOneHasNoCheckpoint) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 2;
  args.max_steps = 4;
  Trainer(testing::small_training(args)).train();
  std::ofstream(folder.path() / ".overwriting.json") << R"({"run": "another", "older": [2, 4]})";
  args.max_steps = 6;
  EXPECT_EQ(train(testing::small_training(args), true).output.global_step, 6);
  EXPECT_EQ(names_in(folder.path()),
            (std::set<std::string>{"checkpoint-2", "checkpoint-4", "checkpoint-6"}));
}

}  // namespace
}  // namespace accelerate::resuming
