// What an evaluation says does not depend on how its rows are cut into batches and dealt to ranks.
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/unflatten.h>

#include <cstdio>
#include <set>
#include <sstream>
#include <utility>

#include "accelerate/transformers/trainer/loop/evaluation.h"
#include "accelerate/transformers/trainer/metrics/metrics.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate {
namespace {

using testing::quiet_arguments;
using testing::TemporaryFolder;
using Ints = std::vector<std::int64_t>;

constexpr std::size_t kRows = 11;

// Rows of 3 to 7 tokens, to which `label` adds the labels of each row, given its number.
Dataset rows_with(const std::function<void(Row&, std::int64_t)>& label) {
  std::vector<Row> rows;
  for (const Row& row : testing::small_rows(kRows)) {
    rows.push_back(Row{{"input_ids", row["input_ids"]}, {"attention_mask", row["attention_mask"]}});
    label(rows.back(), static_cast<std::int64_t>(rows.size()) - 1);
  }
  return Dataset::from_rows(rows);
}

// Of each row 0 to 3 tokens have a label: whole batches have none.
Dataset labelled_tokens() {
  return rows_with([](Row& row, std::int64_t number) {
    Ints labels = row["input_ids"].integers();
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = std::cmp_less(i, number % 4) ? labels[i] % 3 : -100;
    row.set("labels", labels);
  });
}

Dataset texts() {
  return rows_with([](Row& row, std::int64_t) { row.set("labels", row["input_ids"]); });
}

Dataset numbers() {
  return rows_with([](Row& row, std::int64_t) {
    row.set("label", static_cast<double>(row["input_ids"].integers()[0]) / 29);
  });
}

// Three numbers a row. -100 is one like others.
Dataset several_numbers() {
  return rows_with([](Row& row, std::int64_t number) {
    row.set("labels", std::vector<double>{0.5 * static_cast<double>(number), 1, -100});
  });
}

Dataset several_integers() {
  return rows_with([](Row& row, std::int64_t number) {
    row.set("labels", Ints{number, number % 2, number % 3 == 0 ? -100 : 7});
  });
}

Dataset several_classes() {
  return rows_with([](Row& row, std::int64_t number) {
    row.set("labels", Ints{number % 2, number % 3 == 0 ? 1 : 0, 1});
  });
}

// A class, or none.
Dataset some_classes() {
  return rows_with([](Row& row, std::int64_t number) {
    row.set("labels", number % 3 == 1 ? std::int64_t{-100} : number % 2);
  });
}

// Some beginnings, some ends and some of both are beyond the text, where they have no loss. All
// rows have one length, because padding takes part in the softmax over places, here and in
// Transformers.
Dataset answers_but(std::int64_t ends_from) {
  return rows_with([&](Row& row, std::int64_t number) {
    Ints ids = row["input_ids"].integers();
    ids.resize(5, 7);
    row.set("input_ids", ids);
    row.set("attention_mask", Ints(5, 1));
    row.set("start_positions", number % 4 == 3 ? std::int64_t{11} : number % 3);
    const bool ends_beyond = number % 3 == 1 || number >= ends_from;
    row.set("end_positions", ends_beyond ? std::int64_t{5} : number % 5);
  });
}

Dataset answers() {
  return answers_but(9);
}
Dataset answers_without_ends() {
  return answers_but(0);
}

// Two choices a row, all of 7 tokens: the text, and the text with another beginning.
Inputs pair_choices(std::vector<Row> rows) {
  std::vector<Row> choices;
  Ints labels;
  for (const Row& row : rows) {
    labels.push_back(row["label"].integer());
    Ints ids = row["input_ids"].integers(), mask = row["attention_mask"].integers();
    ids.resize(7, 0);
    mask.resize(7, 0);
    choices.push_back(Row{{"input_ids", ids}, {"attention_mask", mask}});
    ids.front() = 1;
    choices.push_back(Row{{"input_ids", ids}, {"attention_mask", mask}});
  }
  Inputs batch = default_data_collator(std::move(choices));
  for (auto& [name, tensor] : batch) tensor = tensor.unflatten(0, {-1, 2});
  batch.set("labels", at::tensor(labels));
  return batch;
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

// Each token has a number, but where it is -100.
Inputs pad_numbers(std::vector<Row> rows) {
  Inputs batch = pad_labels_too(std::move(rows));
  batch.set("labels", batch["labels"].to(at::kFloat));
  return batch;
}

at::Tensor square_by_items(const ModelOutput& outputs, const at::Tensor& labels,
                           const at::Tensor& items) {
  const at::Tensor kept = labels.ne(-100);
  return (outputs.logits.select(-1, 0) - labels).square().masked_select(kept).sum() / items;
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
  Task task = Task::sequence_classification;
  const char* model = "bert";
  std::int64_t classes = 2;
  std::function<Dataset()> rows;
  DataCollator collator = testing::pad_rows;
  ComputeMetrics metrics = {};
  bool is_flattened = false;
  ComputeLoss loss = {};
  double smoothing = 0;
  const char* problem = nullptr;
  bool only_even = false;  ///< Judged in the first arrangement alone.
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
      {.name = "smooth llama",
       .task = causal_lm,
       .model = "llama",
       .rows = texts,
       .collator = pad_labels_too,
       .smoothing = 0.2,
       .only_even = true},
      {.name = "loss of numbers",
       .task = token_classification,
       .classes = 1,
       .rows = labelled_tokens,
       .collator = pad_numbers,
       .loss = square_by_items,
       .only_even = true},
      {.name = "masked",
       .task = masked_lm,
       .rows = labelled_tokens,
       .collator = pad_labels_too,
       .only_even = true},
      {.name = "choices",
       .task = multiple_choice,
       .rows = classes,
       .collator = pair_choices,
       .only_even = true},
      {.name = "some classes", .rows = some_classes, .only_even = true},
      {.name = "several numbers",
       .classes = 3,
       .rows = several_numbers,
       .problem = "regression",
       .only_even = true},
      {.name = "several integers",
       .classes = 3,
       .rows = several_integers,
       .problem = "regression",
       .only_even = true},
      {.name = "several classes",
       .classes = 3,
       .rows = several_classes,
       .problem = "multi_label_classification",
       .only_even = true},
      {.name = "answers", .task = question_answering, .rows = answers},
      {.name = "starts",
       .task = question_answering,
       .rows = answers_without_ends,
       .only_even = true},
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
    {.name = "even", .batch_sizes = {1, 3, 4, 8, 12}},
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
  if (kind.problem != nullptr) config.set("problem_type", std::string(kind.problem));
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
            (!kind.only_even || &arrangement == &kArrangements.front()) &&
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
