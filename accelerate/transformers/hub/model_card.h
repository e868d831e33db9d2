// Writes the README.md of a model on Hugging Face's hub: a block of YAML metadata, then Markdown.
// The hub shows the metadata beside the model and uses it for searches.
//
//   ModelCard card;
//   card.license = "mit";
//   card.base_models = {"google-bert/bert-base-uncased"};
//   card.text = "\n# My model\n";
//   write_file_atomically(real_file_system(), folder / "README.md", write_model_card(card));
//
// Source: `ModelCardData` and `eval_results_to_model_index` of huggingface_hub 2.4.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace accelerate {

/// One metric of the model on one dataset. Identifiers are one line; names may be any text. An
/// empty optional field is left out of the card.
struct EvalResult {
  std::string task_type;           ///< The task's identifier: "text-classification". Required.
  std::string task_name = {};      ///< The task's display name: "Text Classification".
  std::string dataset_type;        ///< The dataset's id on the hub: "nyu-mll/glue". Required.
  std::string dataset_name;        ///< The dataset's display name: "GLUE MRPC". Required.
  std::string dataset_config{};    ///< The configuration within the dataset: "mrpc".
  std::string dataset_split{};     ///< "validation".
  std::string dataset_revision{};  ///< The commit of the dataset.
  std::string metric_type;         ///< The metric's identifier: "accuracy". Required.
  std::string metric_name = {};    ///< The metric's display name: "Accuracy".
  /// The metric's value. NaN and infinity are allowed, as in huggingface_hub; text such as
  /// "20.0 ± 1.2" must not be empty.
  std::variant<double, std::int64_t, std::string> metric_value = 0.0;
};

/// The content of a card. Empty fields and lists are left out. Names, links and `text` may be any
/// UTF-8; every other field, and each entry of a list, is one line.
struct ModelCard {
  std::string license;                   ///< "apache-2.0", or "other" with the two fields below.
  std::string license_name;              ///< The name of a license that the hub does not know.
  std::string license_link;              ///< Where to read that license.
  std::vector<std::string> languages;    ///< ISO 639 codes, or "multilingual", "code".
  std::vector<std::string> base_models;  ///< Ids of the models that were trained further.
  std::vector<std::string> datasets;     ///< Ids of the datasets that the model was trained on.
  std::vector<std::string> metrics;      ///< Identifiers of the metrics that were computed.
  std::vector<std::string> tags;         ///< Search terms. A repeated tag counts once.
  std::string library_name;              ///< The library that opens the model: "transformers".
  std::string pipeline_tag;              ///< What the model does: "text-classification".
  std::string model_name;                ///< Required when there are results.
  std::vector<EvalResult> eval_results;  ///< In the order of the card.
  std::string text;                      ///< Markdown, written after the metadata unchanged.
};

/// Returns the README.md of `card`. Results with equal task type, dataset type, configuration,
/// split and revision become one entry of `model-index`. Such an entry takes the names of its task
/// and dataset from its first result. A single base model is written as a text, every other list as
/// a list. Text that YAML would read as something else is quoted: "no", "1.0", "a: b", "#x". Throws
/// ConfigError, which names the field, when:
/// ConfigError, which names the field, when:
/// - there are results but no model_name,
/// - a required field or an entry of a list is empty,
/// - a field of one line holds a line end or another control character,
/// - a text is not UTF-8.
/// Cost: one pass over the text.
[[nodiscard]] std::string write_model_card(const ModelCard& card);

}  // namespace accelerate
