// Makes batches as tests/reference/collators_live.py asks for.
//
// usage: collator_probe TOKENIZER_FOLDER
//
// Reads one JSON value a line: {"collator": NAME, "options": {…}} makes a collator, {"rows": [...]}
// calls it; {"tokens": …, "ner_tags": …, "all_tokens": BOOL} tokenizes a dataset of words first. Prints {"NAME": {"dtype": …, "shape": […], "values": […]}}, or {"error": "KIND: …"}.
#include <c10/core/ScalarType.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/collators/data_collators.h"
#include "accelerate/transformers/datasets/dataset.h"
#include "tests/transformers/datasets/probe/json_values.h"

namespace {

using namespace accelerate;
using probe::Json;

Json json_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).reshape(-1).contiguous();
  const auto* values = flat.const_data_ptr<double>();
  return {{"dtype", c10::toString(tensor.scalar_type())},
          {"shape", tensor.sizes().vec()},
          {"values", std::vector<double>(values, values + flat.numel())}};
}

template <typename Collator>
Collator with_padding(const PreTrainedTokenizer& tokenizer, const Json& options) {
  Collator collator{.tokenizer = tokenizer};
  if (options.contains("pad_to_multiple_of"))
    collator.pad_to_multiple_of = options["pad_to_multiple_of"].get<std::size_t>();
  if constexpr (requires { collator.padding; }) {
    if (options.contains("padding"))
      collator.padding = Padding(options["padding"].get<std::string>());
    if (options.contains("max_length"))
      collator.max_length = options["max_length"].get<std::size_t>();
  }
  if constexpr (requires { collator.label_pad_token_id; })
    collator.label_pad_token_id = options.value("label_pad_token_id", -100);
  return collator;
}

DataCollatorForLanguageModeling language_modeling(const PreTrainedTokenizer& tokenizer,
                                                  const Json& options) {
  auto collator = with_padding<DataCollatorForLanguageModeling>(tokenizer, options);
  collator.mlm = options.value("mlm", true);
  collator.mlm_probability = options.value("mlm_probability", 0.15);
  collator.mask_replace_prob = options.value("mask_replace_prob", 0.8);
  collator.random_replace_prob = options.value("random_replace_prob", 0.1);
  if (options.contains("seed")) collator.seed = options["seed"].get<std::uint64_t>();
  return collator;
}

DataCollator collator_of(const std::string& name, const PreTrainedTokenizer& tokenizer,
                         const Json& options) {
  if (name == "default_data_collator") return default_data_collator;
  if (name == "DataCollatorWithPadding")
    return with_padding<DataCollatorWithPadding>(tokenizer, options);
  if (name == "DataCollatorForTokenClassification")
    return with_padding<DataCollatorForTokenClassification>(tokenizer, options);
  if (name == "DataCollatorForSeq2Seq")
    return with_padding<DataCollatorForSeq2Seq>(tokenizer, options);
  if (name == "DataCollatorForLanguageModeling") return language_modeling(tokenizer, options);
  return DataCollatorWithFlattening{
      .return_position_ids = options.value("return_position_ids", true),
      .separator_id = options.value("separator_id", -100),
      .return_flash_attn_kwargs = options.value("return_flash_attn_kwargs", false),
      .return_seq_idx = options.value("return_seq_idx", false),
      .position_ids_start = options.value("position_ids_start", 0)};
}

// Rows of words and of one label a word, as a recipe of token classification prepares them.
std::vector<Row> rows_of_words(const PreTrainedTokenizer& tokenizer, const Json& request) {
  std::vector<Value> words, tags;
  for (const Json& row : request["tokens"]) words.emplace_back(row.get<std::vector<std::string>>());
  for (const Json& row : request["ner_tags"])
    tags.emplace_back(row.get<std::vector<std::int64_t>>());
  const Dataset dataset = Dataset::from_columns({{"tokens", words}, {"ner_tags", tags}});
  const bool all_tokens = request["all_tokens"];
  const Dataset tokenized = dataset.map(
      [&](const RowBatch& rows) {
        BatchEncoding batch =
            tokenizer(rows.text_lists("tokens"),
                      {.truncation = true, .max_length = 12, .is_split_into_words = true});
        batch.set("labels",
                  batch.align_labels(rows.integer_lists("ner_tags"), {.all_tokens = all_tokens}));
        return RowBatch(batch);
      },
      {.remove_columns = dataset.column_names()});
  std::vector<Row> rows;
  for (const Row& row : tokenized) rows.push_back(row);
  return rows;
}

Json answer(const PreTrainedTokenizer& tokenizer, DataCollator& collator, const Json& request) {
  if (request.contains("collator")) {
    collator = collator_of(request["collator"].get<std::string>(), tokenizer, request["options"]);
    return Json::object();
  }
  Json batch = Json::object();
  for (const auto& [name, tensor] :
       collator(request.contains("tokens") ? rows_of_words(tokenizer, request)
                                           : probe::rows_of(request["rows"])))
    batch[name] = json_of(tensor);
  return batch;
}

}  // namespace

int main(int, char** arguments) {
  const PreTrainedTokenizer tokenizer = AutoTokenizer::from_pretrained(arguments[1]);
  DataCollator collator;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << answer(tokenizer, collator, Json::parse(line)).dump() << std::endl;
    } catch (const Error& error) {
      std::cout << Json{{"error", std::string(error.kind()) + ": " + describe(error)}}.dump()
                << std::endl;
    }
  }
}
