// What a Trainer is given by mistake: a sentence before the first step.
#include <gtest/gtest.h>

#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <filesystem>

#include "accelerate/base/folder_lock.h"
#include "accelerate/base/logger.h"
#include "accelerate/optim/schedules/metric_scheduler.h"
#include "accelerate/transformers/trainer/metrics/metrics.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

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

void watch(TrainerOptions& options, const char* metric) {
  options.args.eval_strategy = "epoch";
  options.args.save_strategy = "epoch";
  options.args.load_best_model_at_end = true;
  options.args.metric_for_best_model = metric;
}

IterableDataset stream_without_labels() {
  const Dataset rows = testing::small_rows(10).remove_columns({"label"});
  return IterableDataset([rows](std::size_t) {
    return [rows, next = std::size_t{0}]() mutable -> std::optional<Row> {
      return next < rows.size() ? std::optional<Row>(rows[next++]) : std::nullopt;
    };
  });
}

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
       "label_names has 'lable', which is not a column of train_dataset"},
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
         o.args.neftune_noise_alpha = 5.0;
         o.model = trainable(torch::nn::Linear(8, 2),
                             [](torch::nn::Linear&, const Inputs&) { return ModelOutput{}; });
       },
       "is not a model of"},
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
      {"no labels to train on",
       [](Options& o) {
         o.data_collator = {};
         o.args.per_device_train_batch_size = 1;
         o.train_dataset = o.train_dataset.rows()->rename_column("label", "topic");
       },
       "Left out are topic, because BertForSequenceClassification takes no column of that name. "
       "Call the column of the labels 'labels' (rename_column)"},
      {"no labels to watch the loss of",
       [](Options& o) {
         o.data_collator = {};
         o.args.per_device_train_batch_size = o.args.per_device_eval_batch_size = 1;
         watch(o, "loss");
         o.eval_dataset = testing::small_rows(10).rename_column("label", "topic");
       },
       "eval_dataset has no 'labels', so that its evaluation gives neither a loss nor metrics. "
       "Left "
       "out are topic"},
      {"no labels from a collator of the user's",
       [](Options& o) {
         watch(o, "loss");
         o.eval_dataset = testing::small_rows(10).remove_columns({"label"});
       },
       "metric_for_best_model is 'loss', and eval_dataset has no 'labels'"},
      {"no labels in a stream",
       [](Options& o) {
         watch(o, "accuracy");
         o.compute_metrics = Accuracy();
         o.eval_dataset = stream_without_labels();
       },
       "metric_for_best_model is 'accuracy', and eval_dataset has no 'labels'"},
      {"no labels in the watched set",
       [](Options& o) {
         watch(o, "eval_dev_loss");
         o.eval_dataset =
             EvalDatasets::Named{{"other", testing::small_rows(3)},
                                 {"dev", testing::small_rows(3).remove_columns({"label"})}};
       },
       "eval_dataset 'dev' has no 'labels'"},
      {"a metric of several sets",
       [](Options& o) {
         watch(o, "accuracy");
         o.eval_dataset = EvalDatasets::Named{{"dev", testing::small_rows(3)}};
         o.compute_metrics = [](const EvalPrediction&) { return LogValues{{"accuracy", 1}}; };
       },
       "metric_for_best_model is 'accuracy', and an evaluation gives eval_dev_loss"},
      {"a name that a function does not give",
       [](Options& o) {
         watch(o, "acuracy");
         o.compute_metrics = [](const EvalPrediction&) { return LogValues{{"accuracy", 1}}; };
       },
       "Did you mean 'eval_accuracy'"},
      {"classes of a number",
       [](Options& o) {
         o.model = testing::small_classifier(5, 1);
         o.compute_metrics = Accuracy();
         o.args.eval_strategy = "epoch";
       },
       "num_labels is 1"},
      {"a metric of other shapes",
       [](Options& o) {
         o.compute_metrics = Pearson();
         o.args.eval_strategy = "epoch";
       },
       "the first batch of eval_dataset was judged before the training"},
      {"a perplexity of rows",
       [](Options& o) {
         o.compute_metrics = Perplexity();
         o.args.eval_strategy = "epoch";
       },
       "shift_labels"},
      {"a schedule that watches nothing",
       [](Options& o) {
         o.optimizers.optimizer = std::make_shared<torch::optim::SGD>(
             o.model.module()->parameters(), torch::optim::SGDOptions(0.1));
         o.optimizers.lr_scheduler = std::make_shared<ReduceLROnPlateau>(*o.optimizers.optimizer);
         o.args.eval_strategy = "epoch";
       },
       "metric_for_best_model is not set"},
      {"labels in words",
       [](Options& o) {
         o.data_collator = {};
         o.train_dataset = Dataset::from_rows(
             {Row{{"input_ids", std::vector<std::int64_t>{1, 2}}, {"label", "sport"}}});
       },
       "class_encode_column(\"label\")"},
      {"labels in words to evaluate on",
       [](Options& o) {
         o.data_collator = default_data_collator;
         o.args.eval_strategy = "epoch";
         o.train_dataset = testing::small_rows(1);
         o.eval_dataset = Dataset::from_rows(
             {Row{{"input_ids", std::vector<std::int64_t>{1, 2}}, {"label", "sport"}}});
       },
       "eval_dataset has strings in the column 'label'"},
      {"a class of an evaluation set that the model lacks",
       [](Options& o) {
         o.args.eval_strategy = "epoch";
         o.compute_metrics = Accuracy();
         o.eval_dataset = Dataset::from_rows(
             {Row{{"input_ids", std::vector<std::int64_t>{1, 2}}, {"label", std::int64_t{7}}}});
       },
       "eval_dataset"},
      {"nothing that pads", [](Options& o) { o.data_collator = {}; },
       "nothing pads them: give the Trainer processing_class"},
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

// Without a metric to watch, an evaluation without labels is only worth a warning.
TEST(TrainerMistakes, WarnsOnceThatAnEvaluationHasNoLabels) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.eval_strategy = "epoch";
  args.num_train_epochs = 2;
  args.per_device_train_batch_size = args.per_device_eval_batch_size = 1;
  auto options = small_training(args);
  options.data_collator = {};
  options.eval_dataset = testing::small_rows(3).rename_column("label", "topic");
  std::vector<std::string> warnings;
  const auto sink =
      set_log_sink([&](const LogRecord& record) { warnings.emplace_back(record.text); });
  Trainer trainer(std::move(options));
  trainer.train();
  set_log_sink(sink);
  EXPECT_EQ(trainer.evaluate().find("eval_loss"), nullptr);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("eval_dataset has no 'labels'"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("Left out are topic"), std::string::npos) << warnings[0];
}

TEST(TrainerMistakes, WarnsThatNoEvaluationComesToFindTheBestModel) {
  const TemporaryFolder folder;
  auto args = quiet_arguments(folder.path());
  args.eval_strategy = "steps";
  args.eval_delay = 500;
  args.metric_for_best_model = "loss";
  std::vector<std::string> warnings;
  const auto sink =
      set_log_sink([&](const LogRecord& record) { warnings.emplace_back(record.text); });
  Trainer(small_training(args)).train();
  set_log_sink(sink);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("eval_delay is beyond the training, which has 6 steps"),
            std::string::npos)
      << warnings[0];
}

// Otherwise the same draws would train other weights, as soon as somebody names a metric.
TEST(TrainerMistakes, LooksForThemWithoutARandomNumber) {
  const TemporaryFolder folder;
  std::vector<std::vector<at::Tensor>> weights;
  for (const char* metric : {"", "loss"}) {
    auto args = quiet_arguments(folder.path() / ("watched" + std::string(metric)));
    args.eval_strategy = "epoch";
    args.metric_for_best_model = metric;
    auto options = small_training(args);
    options.data_collator = [](std::vector<Row> rows) {
      at::rand({3});
      return testing::pad_rows(std::move(rows));
    };
    PretrainedConfig config = testing::small_bert_config();
    config.set("hidden_dropout_prob", 0.3);
    at::manual_seed(5);
    options.model = AutoModelForSequenceClassification::from_config(config);
    Trainer trainer(std::move(options));
    trainer.train();
    weights.push_back(testing::weights_of(trainer.model()));
  }
  EXPECT_TRUE(testing::are_equal(weights[0], weights[1]));
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
