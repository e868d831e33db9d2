// What a Trainer is given by mistake: a sentence before the first step.
#include <gtest/gtest.h>

#include <torch/nn/modules/linear.h>

#include <filesystem>

#include "accelerate/base/folder_lock.h"
#include "accelerate/trainer/metrics/metrics.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"
#include "tests/trainer/small_training.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::quiet_arguments;
using testing::small_training;
using testing::TemporaryFolder;

struct CountsSteps final : TrainerCallback {
  void on_step_begin(TrainerEvent&) override { ++begun; }
  int begun = 0;
};

struct Mistake {
  const char* name;
  std::function<void(TrainerOptions&)> make;
  const char* sentence;
};

std::vector<Mistake> mistakes() {
  using Options = TrainerOptions;
  return {
      {"strategies",
       [](Options& o) {
         o.args.load_best_model_at_end = true;
         o.args.save_strategy = "epoch";
       },
       "eval_strategy"},
      {"metric",
       [](Options& o) {
         o.args.eval_strategy = "epoch";
         o.args.save_strategy = "best";
         o.args.metric_for_best_model = "acuracy";
         o.compute_metrics = std::make_shared<Accuracy>();
       },
       "Did you mean"},
      {"label",
       [](Options& o) {
         o.data_collator = {};  // One of the user's may change labels.
         o.train_dataset = Dataset::from_rows(
             {Row{{"input_ids", std::vector<std::int64_t>{1, 2}}, {"label", std::int64_t{2}}}});
       },
       "the label of row 0 is 2; the model has 2 classes"},
      {"label_names",
       [](Options& o) {
         o.data_collator = {};
         o.args.label_names = {"lable"};
       },
       "label_names has 'lable', which is no column of train_dataset"},
      {"fsdp words", [](Options& o) { o.args.fsdp = "false offload"; },
       "'fsdp' is 'false offload'"},
      {"two ways to size batches",
       [](Options& o) {
         o.args.train_sampling_strategy = "batch_rebalance";
         o.args.max_tokens_per_batch = 20;
       },
       "Set one of them"},
      {"empty", [](Options& o) { o.train_dataset = testing::small_rows(3).slice(0, 0); }, "empty"},
      {"column",
       [](Options& o) {
         o.train_dataset = Dataset::from_rows({Row{{"text", "a"}, {"label", std::int64_t{1}}}});
       },
       "input_ids"},
      {"length",
       [](Options& o) {
         o.train_dataset =
             IterableDataset([](std::size_t) { return [] { return std::optional<Row>(); }; });
       },
       "max_steps"},
      {"no dataset", [](Options& o) { o.train_dataset = {}; }, "train_dataset"},
      {"no evaluation set",
       [](Options& o) {
         o.args.eval_strategy = "epoch";
         o.eval_dataset = {};
       },
       "eval_dataset"},
      {"other model",
       [](Options& o) {
         o.args.gradient_checkpointing = true;
         o.model = trainable(torch::nn::Linear(8, 2),
                             [](torch::nn::Linear&, const Inputs&) { return ModelOutput{}; });
       },
       "is no model of"},
      {"metrics by batch",
       [](Options& o) {
         o.args.batch_eval_metrics = true;
         o.compute_metrics = [](const EvalPrediction&) { return LogValues{}; };
       },
       "batch_eval_metrics"},
      {"losses alone",
       [](Options& o) {
         o.args.eval_strategy = "epoch";
         o.args.metric_for_best_model = "accuracy";
         o.args.prediction_loss_only = true;
         o.compute_metrics = std::make_shared<Accuracy>();
       },
       "metric_for_best_model"},
      {"equal names",
       [](Options& o) {
         const auto rows = testing::small_rows(3);
         o.eval_dataset = EvalDatasets::Named{{"a", rows}, {"a", rows}};
       },
       "two evaluation sets"},
      {"a file for a folder", [](Options& o) { o.args.output_dir = "/proc/version/below"; },
       "cannot be written into"},
      {"two models", [](Options& o) { o.model_init = [] { return TrainableModel(); }; },
       "model and model_init"},
      {"optimizer argument",
       [](Options& o) {
         o.args.optim = "sgd";
         o.args.optim_args = "momentun=0.9";
       },
       "Did you mean 'momentum'"},
  };
}

TEST(TrainerMistakes, AreFoundBeforeTheFirstStep) {
  for (const Mistake& mistake : mistakes()) {
    const TemporaryFolder folder;
    auto options = small_training(quiet_arguments(folder.path()));
    const auto steps = std::make_shared<CountsSteps>();
    options.callbacks = {steps};
    const auto message = message_of<ConfigError>([&] {
      mistake.make(options);
      Trainer trainer(std::move(options));
      trainer.train();
    });
    EXPECT_NE(message.find(mistake.sentence), std::string::npos) << mistake.name << ": " << message;
    EXPECT_EQ(steps->begun, 0) << mistake.name;
  }
}

TEST(TrainerMistakes, RefusesAFolderOfAnotherRun) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "checkpoint-7");
  Trainer trainer(small_training(quiet_arguments(folder.path())));
  const auto message = message_of<ConfigError>([&] { trainer.train(); });
  EXPECT_NE(message.find("checkpoint-7 of another run"), std::string::npos) << message;
}

TEST(TrainerMistakes, RefusesAFolderInWhichAnotherTrains) {
  const TemporaryFolder folder;
  const auto held = detail::lock_file(folder.path(), folder.path() / ".training.lock");
  Trainer trainer(small_training(quiet_arguments(folder.path())));
  const auto message = message_of<ConfigError>([&] { trainer.train(); });
  EXPECT_NE(message.find("is used by another training, process "), std::string::npos) << message;
}

TEST(TrainerMistakes, RefusesToPushWithoutAToken) {
  const TemporaryFolder folder;
  const testing::ScopedEnv home("HF_HOME", folder.path().c_str()), token("HF_TOKEN", nullptr),
      other("HUGGING_FACE_HUB_TOKEN", nullptr), endpoint("HF_ENDPOINT", "http://127.0.0.1:9");
  auto args = quiet_arguments(folder.path() / "run");
  args.push_to_hub = true;
  Trainer trainer(small_training(args));
  const auto message = message_of<ConfigError>([&] { trainer.train(); });
  EXPECT_NE(message.find("accelerate hub login"), std::string::npos) << message;
  EXPECT_EQ(trainer.state().global_step, 0);
}

}  // namespace
}  // namespace accelerate
