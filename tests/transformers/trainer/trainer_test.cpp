// A Trainer on one process: what it trains, logs, judges, calls and saves.
#include <gtest/gtest.h>

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <filesystem>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/transformers/trainer/callbacks/early_stopping_callback.h"
#include "accelerate/transformers/trainer/metrics/metrics.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate {
namespace {

using std::filesystem::exists;
using testing::are_equal;
using testing::logged;
using testing::message_of;
using testing::quiet_arguments;
using testing::small_training;
using testing::TemporaryFolder;
using testing::weights_of;

// Notes the events that it is told.
struct Recorder final : TrainerCallback {
  std::vector<std::string> events;
  void on_init_end(TrainerEvent&) override { events.emplace_back("init_end"); }
  void on_train_begin(TrainerEvent&) override { events.emplace_back("train_begin"); }
  void on_train_end(TrainerEvent&) override { events.emplace_back("train_end"); }
  void on_epoch_begin(TrainerEvent&) override { events.emplace_back("epoch_begin"); }
  void on_epoch_end(TrainerEvent&) override { events.emplace_back("epoch_end"); }
  void on_step_begin(TrainerEvent&) override { events.emplace_back("step_begin"); }
  void on_pre_optimizer_step(TrainerEvent&) override { events.emplace_back("pre_step"); }
  void on_optimizer_step(TrainerEvent&) override { events.emplace_back("step"); }
  void on_substep_end(TrainerEvent&) override { events.emplace_back("substep"); }
  void on_step_end(TrainerEvent&) override { events.emplace_back("step_end"); }
  void on_log(TrainerEvent&, const LogValues&) override { events.emplace_back("log"); }
  void on_evaluate(TrainerEvent&, const LogValues&) override { events.emplace_back("evaluate"); }
  void on_save(TrainerEvent&, const std::filesystem::path& folder) override {
    events.push_back("save " + folder.filename().string());
  }
};

TEST(Trainer, TrainsLogsAndJudges) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.num_train_epochs = 8;
  auto options = small_training(args);
  options.compute_metrics = std::make_shared<Accuracy>();
  Trainer trainer(std::move(options));
  const double before = *trainer.evaluate().find("eval_loss");
  const auto output = trainer.train();
  EXPECT_EQ(output.global_step, 48);
  const auto metrics = trainer.evaluate();
  EXPECT_LT(*metrics.find("eval_loss"), before);
  EXPECT_GT(*metrics.find("eval_accuracy"), 0.7);
  const auto losses = logged(trainer.state(), "loss");
  EXPECT_EQ(losses.size(), 48U);
  const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / 48;
  EXPECT_NEAR(mean, output.training_loss, 1e-9);
  EXPECT_DOUBLE_EQ(trainer.state().epoch, 8);
}

// The rate that a step used, not the one behind it.
TEST(Trainer, LogsTheLearningRateOfTheStep) {
  const TemporaryFolder folder;
  Trainer trainer(small_training(quiet_arguments(folder.path())));
  trainer.train();
  const auto rates = logged(trainer.state(), "learning_rate");
  ASSERT_EQ(rates.size(), 6U);
  EXPECT_DOUBLE_EQ(rates.front(), 5e-3);
  EXPECT_NEAR(rates.back(), 5e-3 / 6, 1e-12);
}

TEST(Trainer, CallsCallbacksInTheOriginalsOrder) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.max_steps = 1;
  args.gradient_accumulation_steps = 2;
  args.eval_strategy = args.save_strategy.text() == "no" ? "steps" : "no";
  args.eval_steps = 1;
  args.save_strategy = "steps";
  args.save_steps = 1;
  auto options = small_training(args);
  const auto recorder = std::make_shared<Recorder>();
  options.callbacks = {recorder};
  Trainer trainer(std::move(options));
  trainer.train();
  const std::vector<std::string> expected{
      "init_end",  "train_begin", "epoch_begin", "step_begin", "substep",  "pre_step",
      "step",      "step_end",    "log",         "log",        "evaluate", "save checkpoint-1",
      "epoch_end", "log",         "train_end"};
  EXPECT_EQ(recorder->events, expected);
}

// Two micro-batches of 2 are one batch of 4, to rounding; the last step has the rows that are left.
TEST(Trainer, AccumulatesToTheSameSteps) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  Trainer whole(small_training(args));
  whole.train();
  args.per_device_train_batch_size = 2;
  args.gradient_accumulation_steps = 2;
  Trainer parts(small_training(args));
  parts.train();
  const auto a = logged(whole.state(), "loss"), b = logged(parts.state(), "loss");
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
}

TEST(Trainer, GoesOnFromACheckpointBitForBit) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path() / "whole");
  args.num_train_epochs = 2;
  args.gradient_accumulation_steps = 2;
  Trainer whole(small_training(args));
  whole.train();
  for (const std::int64_t cut : {1, 3, 4}) {  // Inside an epoch, at its end, inside the next.
    args.output_dir = (folder.path() / std::to_string(cut)).string();
    args.save_strategy = "steps";
    args.save_steps = static_cast<double>(cut);
    auto options = small_training(args);
    struct Stop final : TrainerCallback {
      void on_save(TrainerEvent& event, const std::filesystem::path&) override {
        event.control.should_training_stop = true;
      }
    };
    options.callbacks = {std::make_shared<Stop>()};
    Trainer cut_short(std::move(options));
    cut_short.train();
    ASSERT_EQ(cut_short.state().global_step, cut);
    Trainer resumed(small_training(args));
    const auto output = resumed.train(true);
    EXPECT_EQ(output.global_step, 6);
    EXPECT_TRUE(are_equal(weights_of(whole.model()), weights_of(resumed.model()))) << cut;
    EXPECT_EQ(logged(whole.state(), "loss"), logged(resumed.state(), "loss"));
  }
}

TEST(Trainer, KeepsTheBestCheckpointAndItsWeights) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.num_train_epochs = 4;
  args.learning_rate = 0.2;  // Too much: it gets worse.
  args.eval_strategy = "epoch";
  args.save_strategy = "epoch";
  args.save_total_limit = 1;
  args.load_best_model_at_end = true;
  Trainer trainer(small_training(args));
  trainer.train();
  const auto losses = logged(trainer.state(), "eval_loss");
  const double best = *std::ranges::min_element(losses);
  EXPECT_DOUBLE_EQ(*trainer.state().best_metric, best);
  EXPECT_NEAR(*trainer.evaluate().find("eval_loss"), best, 1e-9);
  const auto folder_of_best =
      folder.path() / ("checkpoint-" + std::to_string(*trainer.state().best_global_step));
  EXPECT_EQ(trainer.state().best_model_checkpoint, folder_of_best.string());
  std::size_t checkpoints = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    checkpoints += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(checkpoints, 1U);
  EXPECT_TRUE(exists(folder_of_best / "config.json"));
}

TEST(Trainer, StopsEarly) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.num_train_epochs = 20;
  args.learning_rate = 0.2;
  args.eval_strategy = "epoch";
  args.metric_for_best_model = "loss";
  auto options = small_training(args);
  options.callbacks = {
      std::make_shared<EarlyStoppingCallback>(EarlyStoppingOptions{.early_stopping_patience = 2})};
  Trainer trainer(std::move(options));
  const auto output = trainer.train();
  EXPECT_LT(output.global_step, 120);
  const auto losses = logged(trainer.state(), "eval_loss");
  const auto best = std::ranges::min_element(losses);
  EXPECT_EQ(losses.end() - best, 3);
}

// What streams and what sees all at once agree, on sets that batches do not divide.
TEST(Trainer, JudgesAllPredictionsAsAStream) {
  const TemporaryFolder folder;
  auto options = small_training(quiet_arguments(folder.path()));
  options.compute_metrics = combine({Accuracy(), F1()});
  Trainer streamed(options);
  options.compute_metrics = [](const EvalPrediction& prediction) -> LogValues {
    EXPECT_EQ(prediction.predictions.size(0), 10);
    const auto guesses = prediction.predictions.argmax(1);
    return {{"accuracy", guesses.eq(prediction.label_ids).to(at::kDouble).mean().item<double>()}};
  };
  Trainer together(options);
  EXPECT_DOUBLE_EQ(*streamed.evaluate().find("eval_accuracy"),
                   *together.evaluate().find("eval_accuracy"));
  EXPECT_NE(streamed.evaluate().find("eval_f1"), nullptr);
}

TEST(Trainer, PredictsInTheOrderOfTheRows) {
  const TemporaryFolder folder;
  Trainer trainer(small_training(quiet_arguments(folder.path())));
  const auto rows = testing::small_rows(11, 30);
  const auto output = trainer.predict(rows);
  ASSERT_EQ(output.predictions.sizes().vec(), (std::vector<std::int64_t>{11, 2}));
  for (std::int64_t i = 0; i < 11; ++i)
    EXPECT_EQ(output.label_ids[i].item<std::int64_t>(),
              rows[static_cast<std::size_t>(i)]["label"].integer());
  EXPECT_NE(output.metrics.find("test_loss"), nullptr);
}

TEST(Trainer, TakesAMetricByValueAndGivesItsValueByName) {
  const TemporaryFolder folder;
  auto options = small_training(quiet_arguments(folder.path()));
  options.compute_metrics = Accuracy();
  Trainer trainer(std::move(options));
  const auto metrics = trainer.evaluate();
  EXPECT_DOUBLE_EQ(metrics["eval_accuracy"], *metrics.find("eval_accuracy"));
  EXPECT_EQ(metrics[0].first, "eval_accuracy");
  const auto message = message_of<UsageError>([&] { (void)metrics["eval_acuracy"]; });
  EXPECT_NE(message.find("there are eval_accuracy, eval_loss"), std::string::npos) << message;
  EXPECT_NE(message.find("Did you mean 'eval_accuracy'"), std::string::npos) << message;
}

TEST(Trainer, EvaluatesSeveralSetsByName) {
  const TemporaryFolder folder;
  auto options = small_training(quiet_arguments(folder.path()));
  options.eval_dataset =
      EvalDatasets::Named{{"a", testing::small_rows(4, 40)}, {"b", testing::small_rows(6, 60)}};
  Trainer trainer(std::move(options));
  const auto metrics = trainer.evaluate();
  EXPECT_NE(metrics.find("eval_a_loss"), nullptr);
  EXPECT_NE(metrics.find("eval_b_loss"), nullptr);
}

TEST(Trainer, TakesALossOfYourOwn) {
  const TemporaryFolder folder;
  auto options = small_training(quiet_arguments(folder.path()));
  int calls = 0;
  options.compute_loss_func = [&](const ModelOutput& outputs, const at::Tensor& labels,
                                  const at::Tensor& num_items) {
    ++calls;
    EXPECT_FALSE(outputs.loss.defined());
    const auto picked = outputs.logits.log_softmax(1).gather(1, labels.unsqueeze(1));
    return -picked.sum() / num_items;
  };
  Trainer own(std::move(options));
  own.train();
  EXPECT_EQ(calls, 6);
  Trainer usual(small_training(quiet_arguments(folder.path() / "usual")));
  usual.train();
  const auto a = logged(own.state(), "loss"), b = logged(usual.state(), "loss");
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    table = register_module("table", torch::nn::Embedding(30, 8));
    out = register_module("out", torch::nn::Linear(8, 2));
  }
  at::Tensor forward(const at::Tensor& ids) { return out(table(ids).mean(1)); }
  torch::nn::Embedding table = nullptr;
  torch::nn::Linear out = nullptr;
};
TORCH_MODULE(Net);

TEST(Trainer, TrainsAnyModule) {
  const TemporaryFolder folder;
  auto options = small_training(quiet_arguments(folder.path()));
  at::manual_seed(1);
  options.model = trainable(Net(), [](Net& net, const Inputs& batch) {
    const auto logits = net->forward(batch["input_ids"]);
    const auto picked = logits.log_softmax(1).gather(1, batch["labels"].unsqueeze(1));
    return ModelOutput{.loss = -picked.mean(), .logits = logits};
  });
  options.args.num_train_epochs = 10;
  options.args.learning_rate = 0.05;
  Trainer trainer(std::move(options));
  trainer.train();
  const auto losses = logged(trainer.state(), "loss");
  EXPECT_LT(losses.back(), losses.front());
  trainer.save_model(folder.path() / "saved");
  EXPECT_TRUE(exists(folder.path() / "saved" / "model.safetensors"));
  EXPECT_FALSE(exists(folder.path() / "saved" / "config.json"));
}

TEST(Trainer, TakesAnOptimizerOfYourOwn) {
  const TemporaryFolder folder;
  auto options = small_training(quiet_arguments(folder.path()));
  options.optimizers.optimizer = std::make_shared<torch::optim::SGD>(
      options.model.module()->parameters(), torch::optim::SGDOptions(0.25));
  Trainer trainer(std::move(options));
  trainer.train();
  EXPECT_DOUBLE_EQ(logged(trainer.state(), "learning_rate").front(), 0.25);
}

TEST(Trainer, MakesTheModelAnewForEachTraining) {
  const TemporaryFolder folder;
  auto options = small_training(quiet_arguments(folder.path()));
  options.model = {};
  options.model_init = [] { return TrainableModel(testing::small_classifier()); };
  Trainer trainer(std::move(options));
  trainer.train();
  const auto first = weights_of(trainer.model());
  trainer.train();
  EXPECT_TRUE(are_equal(first, weights_of(trainer.model())));
}

TEST(Trainer, SavesWhatFromPretrainedOpens) {
  const TemporaryFolder folder;
  Trainer trainer(small_training(quiet_arguments(folder.path())));
  trainer.train();
  trainer.save_model();
  trainer.save_state();
  trainer.save_metrics("train", {{"train_loss", 0.5}});
  trainer.save_metrics("eval", {{"eval_loss", 0.25}});
  const auto opened = AutoModelForSequenceClassification::from_pretrained(folder.path().string());
  EXPECT_TRUE(are_equal(weights_of(trainer.model()), weights_of(opened)));
  const auto state = TrainerState::load(folder.path() / "trainer_state.json");
  EXPECT_EQ(state.global_step, 6);
  EXPECT_EQ(state.log_history.size(), trainer.state().log_history.size());
  for (const char* file : {"training_args.json", "train_results.json", "all_results.json"})
    EXPECT_TRUE(exists(folder.path() / file)) << file;
}

TEST(Trainer, ProvesThatAResumedRunIsTheUncutOneAndChangesNothing) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path() / "proved");
  args.verify_resume = true;
  Trainer proved(small_training(args));
  proved.train();
  Trainer usual(small_training(quiet_arguments(folder.path() / "usual")));
  usual.train();
  EXPECT_TRUE(are_equal(weights_of(proved.model()), weights_of(usual.model())));
  EXPECT_FALSE(exists(folder.path() / "proved" / ".verify_resume"));
}

// A loss with a state of its own, which no checkpoint has.
TEST(Trainer, FindsWhatDoesNotGoOn) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.verify_resume = true;
  auto options = small_training(args);
  options.compute_loss_func = [calls = 0](const ModelOutput& outputs, const at::Tensor& labels,
                                          const at::Tensor&) mutable {
    const auto picked = outputs.logits.log_softmax(1).gather(1, labels.unsqueeze(1));
    return -picked.mean() * static_cast<double>(++calls);
  };
  Trainer trainer(std::move(options));
  const auto message = message_of<CheckpointError>([&] { trainer.train(); });
  EXPECT_NE(message.find("verify_resume"), std::string::npos) << message;
}

// What is gone back from goes first, never what was just saved.
TEST(Trainer, KeepsWhatAResumedTrainingSavesAndNotWhatItTookBack) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 2;
  Trainer(small_training(args)).train();
  args.save_total_limit = 1;
  args.max_steps = 4;
  Trainer back(small_training(args));
  back.train(folder.path() / "checkpoint-2");
  EXPECT_TRUE(exists(folder.path() / "checkpoint-4"));
  EXPECT_FALSE(exists(folder.path() / "checkpoint-6"));
  EXPECT_FALSE(exists(folder.path() / "checkpoint-2"));
}

TEST(Trainer, DoesNotMixAnotherRunIntoAFolder) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path() / "one");
  args.save_strategy = "epoch";
  Trainer(small_training(args)).train();
  args.output_dir = (folder.path() / "two").string();
  Trainer(small_training(args)).train();
  Trainer mixed(small_training(args));
  const auto message =
      message_of<ConfigError>([&] { mixed.train(folder.path() / "one" / "checkpoint-6"); });
  EXPECT_NE(message.find("of another run"), std::string::npos) << message;
}

struct EndsTheFirstEpoch final : TrainerCallback {
  void on_epoch_begin(TrainerEvent& event) override {
    if (event.state.global_step == 0 && !std::exchange(ended, true))
      event.control.should_epoch_stop = true;
  }
  bool ended = false;
};

TEST(Trainer, GoesOnBehindAnEpochThatACallbackEnds) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.num_train_epochs = 2;
  auto options = small_training(args);
  options.callbacks = {std::make_shared<EndsTheFirstEpoch>()};
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.train().global_step, 6);
}

struct ThrowsOnce final : TrainerCallback {
  void on_pre_optimizer_step(TrainerEvent&) override {
    if (!std::exchange(thrown, true)) throw std::runtime_error("once");
  }
  bool thrown = false;
};

TEST(Trainer, ForgetsTheGradientsOfATrainingThatWasCut) {
  const TemporaryFolder folder;
  auto options = small_training(quiet_arguments(folder.path()));
  options.callbacks = {std::make_shared<ThrowsOnce>()};
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.train(), std::runtime_error);
  trainer.train();
  Trainer usual(small_training(quiet_arguments(folder.path() / "usual")));
  usual.train();
  EXPECT_EQ(logged(trainer.state(), "grad_norm"), logged(usual.state(), "grad_norm"));
}

TEST(Trainer, FindsABatchSizeThatFits) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.auto_find_batch_size = true;
  auto options = small_training(args);
  options.compute_loss_func = [](const ModelOutput& outputs, const at::Tensor& labels,
                                 const at::Tensor&) {
    if (labels.size(0) > 2) throw std::bad_alloc();
    return -outputs.logits.log_softmax(1).gather(1, labels.unsqueeze(1)).mean();
  };
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.train().global_step, 11);
  EXPECT_EQ(trainer.state().train_batch_size, 2);
}

}  // namespace
}  // namespace accelerate
