// Tags the words of sentences, here people and places, and scores whole names as seqeval does.
//   tag_tokens --data my.jsonl --model models/minilm
// A row of the file: {"words": ["Anna", "lives", "in", "Oslo"], "tags": ["B-PER", "O", "O", "B-LOC"]}
#include <accelerate/trainer.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "examples/cookbook/model_of.h"
#include "examples/cookbook/rounded.h"

namespace {

using namespace accelerate;

struct ScriptArguments {
  std::string data = "examples/cookbook/data/names.jsonl";
  std::string model = "examples/cookbook/data/tiny_bert";
};

template <typename Visit>
void visit_arguments(ScriptArguments& script, Visit&& argument) {
  argument("data", script.data, "Sentences, one JSON object a line.");
  argument("model", script.model, "A pretrained model, or a folder without weights.");
}

struct Arguments : TrainingArguments {
  Arguments()
      : TrainingArguments{.output_dir = "tag_tokens_output",
                          .learning_rate = 5e-3,
                          .per_device_train_batch_size = 16,
                          .num_train_epochs = 6,
                          .save_strategy = "no",
                          .report_to = {"none"}} {}
};

/// Returns all tags of the rows, sorted: the numbers of the classes.
std::vector<std::string> tags_of(const Dataset& rows) {
  std::set<std::string> tags;
  for (const Row& row : rows)
    for (const auto& tag : row["tags"].texts()) tags.insert(tag);
  return {tags.begin(), tags.end()};
}

/// Returns rows of tokens; the first token of a word has the word's tag, the others have -100.
Dataset encoded(const Dataset& rows, const std::vector<std::string>& tags,
                const PreTrainedTokenizer& tokenizer) {
  return rows.map(
      [&](const RowBatch& batch) {
        BatchEncoding::Column numbers;
        for (const auto& sentence : batch.text_lists("tags")) {
          auto& row = numbers.emplace_back();
          for (const auto& tag : sentence)
            row.push_back(std::ranges::lower_bound(tags, tag) - tags.begin());
        }
        auto tokens =
            tokenizer(batch.text_lists("words"), {.truncation = true, .is_split_into_words = true});
        tokens.set("labels", tokens.align_labels(numbers));
        return RowBatch(tokens);
      },
      {.remove_columns = rows.column_names()});
}

void run(const Arguments& training_args, const ScriptArguments& script) {
  set_seed(training_args.seed);
  const Dataset rows = load_dataset("json", {.data_files = script.data}).only();
  const auto tags = tags_of(rows);
  const auto tokenizer = AutoTokenizer::from_pretrained(script.model);
  const auto parts =
      encoded(rows, tags, tokenizer).train_test_split({.test_size = 0.2, .seed = 42});
  const auto model = model_of<AutoModelForTokenClassification>(script.model, tags);

  Trainer trainer({.model = model,
                   .args = training_args,
                   .train_dataset = parts["train"],
                   .eval_dataset = parts["test"],
                   .processing_class = tokenizer,
                   .data_collator = DataCollatorForTokenClassification{.tokenizer = tokenizer},
                   .compute_metrics = SeqevalF1({.id2label = tags, .per_type = true})});
  trainer.train();
  const auto metrics = trainer.evaluate();
  trainer.save_model();
  if (trainer.is_world_process_zero())
    for (const std::string type : {"PER", "LOC", "overall"})
      std::cout << type << ": F1 " << rounded(metrics["eval_" + type + "_f1"]) << "\n";
  trainer.end();
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] {
    const auto [training_args, script] =
        accelerate::parse_args<Arguments, ScriptArguments>(argc, argv);
    run(training_args, script);
  });
}
