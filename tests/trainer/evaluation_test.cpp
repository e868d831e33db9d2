// What an evaluation says does not depend on how its rows are cut into batches and dealt to ranks.
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <cstdio>
#include <set>
#include <sstream>

#include "accelerate/trainer/loop/evaluation.h"
#include "accelerate/trainer/metrics/metrics.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"
#include "tests/trainer/small_training.h"

namespace accelerate {
namespace {

using testing::quiet_arguments;
using testing::TemporaryFolder;
using Ints = std::vector<std::int64_t>;

constexpr std::size_t kRows = 11;

// Rows of 3 to 7 tokens, of which 0 to 3 have a label.
Dataset labelled_tokens() {
  std::vector<Row> rows;
  for (const Row& row : testing::small_rows(kRows)) {
    Ints labels = row["input_ids"].integers();
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = i < rows.size() % 4 ? labels[i] % 3 : -100;
    rows.push_back(Row{{"input_ids", row["input_ids"]},
                       {"attention_mask", row["attention_mask"]},
                       {"labels", labels}});
  }
  return Dataset::from_rows(rows);
}

Dataset texts() {
  std::vector<Row> rows;
  for (const Row& row : testing::small_rows(kRows))
    rows.push_back(Row{{"input_ids", row["input_ids"]},
                       {"attention_mask", row["attention_mask"]},
                       {"labels", row["input_ids"]}});
  return Dataset::from_rows(rows);
}

Dataset numbers() {
  std::vector<Row> rows;
  for (const Row& row : testing::small_rows(kRows))
    rows.push_back(Row{{"input_ids", row["input_ids"]},
                       {"attention_mask", row["attention_mask"]},
                       {"label", static_cast<double>(row["input_ids"].integers()[0]) / 29}});
  return Dataset::from_rows(rows);
}

// The last rows' answers are beyond the text, where they have no loss. All rows have one length,
// because padding takes part in the softmax over places, here and in Transformers.
Dataset answers() {
  std::vector<Row> rows;
  for (const Row& row : testing::small_rows(kRows)) {
    const std::int64_t place = rows.size() > 8 ? 11 : static_cast<std::int64_t>(rows.size() % 3);
    Ints ids = row["input_ids"].integers();
    ids.resize(5, 7);
    rows.push_back(Row{{"input_ids", ids},
                       {"attention_mask", Ints(5, 1)},
                       {"start_positions", place},
                       {"end_positions", place}});
  }
  return Dataset::from_rows(rows);
}

Inputs pad_labels_too(std::vector<Row> rows) {
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row["labels"].integers().size());
  for (Row& row : rows) {
    auto labels = row["labels"].integers();
    labels.resize(longest, -100);
    row.set("labels", labels);
  }
  return testing::pad_rows(std::move(rows));
}

at::Tensor sum_by_items(const ModelOutput& outputs, const at::Tensor& labels,
                        const at::Tensor& items) {
  return at::cross_entropy_loss(outputs.logits.flatten(0, 1), labels.flatten(), {},
                                at::Reduction::Sum) /
         items;
}

// Every sample once: the number of rows, and of labels that are right.
LogValues judge_all(const EvalPrediction& given) {
  const at::Tensor counts = given.label_ids.ne(-100);
  const at::Tensor right = given.predictions.argmax(-1).eq(given.label_ids).logical_and(counts);
  return {{"rows", static_cast<double>(given.predictions.size(0))},
          {"right", right.sum().item<double>()},
          {"losses", static_cast<double>(given.losses.size(0))}};
}

// The same, batch by batch.
struct JudgesBatches {
  LogValues operator()(const EvalPrediction& given, bool is_last) const {
    for (const auto& [name, value] : judge_all(given)) {
      const double* before = sums->find(name);
      sums->set(name, value + (before != nullptr ? *before : 0));
    }
    return is_last ? std::exchange(*sums, {}) : LogValues{};
  }
  std::shared_ptr<LogValues> sums = std::make_shared<LogValues>();
};

struct Kind {
  const char* name;
  Task task;
  const char* model;
  std::int64_t classes;
  std::function<Dataset()> rows;
  DataCollator collator;
  ComputeMetrics metrics;
  bool is_flattened = false;
  ComputeLoss loss = {};
  double smoothing = 0;
};

std::vector<Kind> kinds() {
  const DataCollatorWithFlattening flat{.return_flash_attn_kwargs = true};
  const auto classes = [] { return testing::small_rows(kRows); };
  using enum Task;
  return {
      {"classes", sequence_classification, "bert", 2, classes, testing::pad_rows,
       combine({Accuracy(), F1()})},
      {"number", sequence_classification, "bert", 1, numbers, testing::pad_rows, Pearson()},
      {"tokens", token_classification, "bert", 3, labelled_tokens, pad_labels_too, Accuracy()},
      {"all", token_classification, "bert", 3, labelled_tokens, pad_labels_too, judge_all},
      {"batches", token_classification, "bert", 3, labelled_tokens, pad_labels_too,
       JudgesBatches()},
      {"loss", token_classification, "bert", 3, labelled_tokens, pad_labels_too, Accuracy(), false,
       sum_by_items},
      {"smooth",
       token_classification,
       "bert",
       3,
       labelled_tokens,
       pad_labels_too,
       Accuracy(),
       false,
       {},
       0.2},
      {"answers", question_answering, "bert", 2, answers, testing::pad_rows, {}},
      {"padded", causal_lm, "llama", 2, texts, pad_labels_too, Perplexity()},
      {"flat", causal_lm, "llama", 2, texts, flat, Perplexity(), true},
      {"flat gpt2", causal_lm, "gpt2", 2, texts, flat, Perplexity(), true},
  };
}

struct Arrangement {
  const char* name;
  std::vector<std::int64_t> batch_sizes = {3};
  std::function<void(TrainingArguments&)> change = [](TrainingArguments&) {};
  bool streams = false;
  bool deals = false;  ///< Rank 0 deals out batches, which flattened ones do not allow.
  std::set<std::string> kinds = {};  ///< Empty: all.
};

const std::vector<Arrangement> kArrangements{
    {.name = "even", .batch_sizes = {1, 3, 12}},
    {.name = "uneven",
     .change = [](TrainingArguments& args) { args.accelerator_config.even_batches = false; }},
    {.name = "drop_last",
     .change = [](TrainingArguments& args) { args.dataloader_drop_last = true; }},
    {.name = "workers", .change = [](TrainingArguments& args) { args.dataloader_num_workers = 2; }},
    {.name = "split",
     .batch_sizes = {6},
     .change = [](TrainingArguments& args) { args.accelerator_config.split_batches = true; }},
    {.name = "sharded",  // A rank without rows must take part in the others' forwards.
     .batch_sizes = {3, 12},
     .change = [](TrainingArguments& args) { args.fsdp = "full_shard"; },
     .kinds = {"tokens", "flat"}},
    {.name = "stream", .streams = true, .deals = true},
    {.name = "stream_of_each_rank",
     .change = [](TrainingArguments& args) { args.accelerator_config.dispatch_batches = false; },
     .streams = true},
};

IterableDataset stream_of(const Dataset& rows) {
  return IterableDataset([rows](std::size_t) {
    return [rows, next = std::size_t{0}]() mutable -> std::optional<Row> {
      return next < rows.size() ? std::optional<Row>(rows[next++]) : std::nullopt;
    };
  });
}

// Writes what the evaluation gave as a line: a name, then numbers.
void evaluate(const TemporaryFolder& folder, const Kind& kind, const Arrangement& arrangement,
              std::int64_t batch_size) {
  at::manual_seed(5);
  PretrainedConfig config = testing::small_config(kind.model);
  config.set_num_labels(kind.classes);
  auto args = quiet_arguments(folder.path());
  args.per_device_eval_batch_size = batch_size;
  args.label_smoothing_factor = kind.smoothing;
  args.batch_eval_metrics = kind.metrics.batch_function() != nullptr;
  args.include_for_metrics = {"loss"};
  arrangement.change(args);
  const Dataset rows = kind.rows();
  detail::TrainerCore core({.model = detail::model_from_config(kind.task, config),
                            .args = args,
                            .data_collator = kind.collator,
                            .compute_metrics = kind.metrics,
                            .compute_loss_func = kind.loss});
  const auto dataset = arrangement.streams ? TrainerDataset(stream_of(rows)) : TrainerDataset(rows);
  const auto result = detail::run_evaluation(core, dataset, {});
  std::ostringstream line;
  line << kind.name << "/" << arrangement.name << "/" << batch_size << "\t" << result.num_samples;
  line.precision(9);
  for (const auto& [name, value] : result.metrics)
    if (!name.ends_with("_per_second") && !name.ends_with("runtime")) line << "\t" << value;
  if (core.accelerator.is_main_process()) std::printf("%s\n", line.str().c_str());
}

RANK_MAIN(evaluates_in_every_way) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  for (const Kind& kind : kinds())
    for (const Arrangement& arrangement : kArrangements)
      for (const std::int64_t batch_size : arrangement.batch_sizes)
        if ((!kind.is_flattened || !arrangement.deals) &&
            (arrangement.kinds.empty() || arrangement.kinds.contains(kind.name)))
          evaluate(folder, kind, arrangement, batch_size);
  return 0;
}

std::vector<double> numbers_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<double> numbers;
  for (double number = 0; stream >> number;) numbers.push_back(number);
  return numbers;
}

// What a single process says that judges all rows in one batch.
using Expected = std::map<std::string, std::vector<double>>;

void compare(const std::string& output, int ranks, Expected& expected) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find('\t'));
    const std::string kind = name.substr(0, name.find('/'));
    const auto numbers = numbers_of(line.substr(name.size()));
    if (ranks == 1 && name == kind + "/even/12") expected[kind] = numbers;
  }
  std::istringstream again(output);
  for (std::string line; std::getline(again, line);) {
    const std::string name = line.substr(0, line.find('\t'));
    const auto numbers = numbers_of(line.substr(name.size()));
    const auto& wanted = expected[name.substr(0, name.find('/'))];
    ASSERT_EQ(numbers.size(), wanted.size()) << line;
    EXPECT_EQ(numbers.front(), kRows) << line;
    for (std::size_t i = 1; i < numbers.size(); ++i)
      EXPECT_NEAR(numbers[i], wanted[i], 3e-6 * std::max(1.0, std::abs(wanted[i])))
          << line << " on " << ranks << " ranks, value " << i;
  }
}

TEST(Evaluation, DoesNotDependOnBatchesAndRanks) {
  Expected expected;
  for (const int ranks : {1, 2, 3}) {
    for (const auto& result : testing::run_processes(ranks, "evaluates_in_every_way")) {
      ASSERT_EQ(result.exit_code, 0) << result.err;
      if (result.rank == 0) compare(result.out, ranks, expected);
    }
  }
  EXPECT_EQ(expected.size(), kinds().size());
}

}  // namespace
}  // namespace accelerate
