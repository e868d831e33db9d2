#include "accelerate/transformers/trainer/data/label_columns.h"

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kRowsLookedAt = 1000;

bool has_name(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_default(const DataCollator& collator) {
  using Function = Inputs (*)(std::vector<Row>);
  const auto* function = collator.target<Function>();
  return function != nullptr && *function == &default_data_collator;
}

bool is_label(const std::string& name) {
  return name == "label" || name == "labels" || name == "label_ids";
}

// Whether the collator refuses strings in any column. The default one leaves them out, but in
// columns of labels.
bool refuses_strings(const DataCollator& collator) {
  return collator.target<DataCollatorWithPadding>() != nullptr ||
         collator.target<DataCollatorForTokenClassification>() != nullptr ||
         collator.target<DataCollatorForSeq2Seq>() != nullptr ||
         collator.target<DataCollatorForLanguageModeling>() != nullptr;
}

void check_strings(const DataCollator& collator, const Dataset& used, const std::string& where) {
  const bool refuses_all = refuses_strings(collator);
  if (!refuses_all && !is_default(collator)) return;
  for (const auto& [name, value] : used[0]) {
    if (!value.holds<std::string>()) continue;
    const std::string holds = where + " has strings in the column '" + name + "'";
    if (is_label(name))
      throw ConfigError(holds +
                        ", and labels are numbers: make them class labels by "
                        "class_encode_column(\"" +
                        name + "\"), which also names the classes (features())");
    if (refuses_all)
      throw ConfigError(holds +
                        ", and batches are made of numbers: tokenize it by map(), and leave it out "
                        "by remove_columns");
  }
}

// Throws where batches of `batch_size` neighbours differ in length and are only stacked.
void check_lengths(const Dataset& used, std::int64_t batch_size, const std::string& where) {
  const Dataset first = used.slice(0, std::min(used.size(), kRowsLookedAt));
  const auto lengths = lengths_of(first);
  for (std::size_t i = 1; i < lengths.size(); ++i) {
    if (i % static_cast<std::size_t>(std::max<std::int64_t>(batch_size, 1)) == 0 ||
        lengths[i] == lengths[i - 1])
      continue;
    throw ConfigError(where + " has rows of " + std::to_string(lengths[i - 1]) + " and of " +
                          std::to_string(lengths[i]) +
                          " tokens, and nothing pads them: give the Trainer processing_class (the "
                          "tokenizer), or a data_collator, such as DataCollatorWithPadding",
                      error_name::kRaggedBatch);
  }
}

// Returns the columns of `dataset` that the model does not take, so that batches are without them;
// none for a stream, whose columns are not known.
std::vector<std::string> dropped_columns(const TrainerDataset& dataset,
                                         const LoaderRecipe& recipe) {
  std::vector<std::string> dropped;
  const auto used = used_columns(recipe);
  if (dataset.rows() == nullptr || used.empty()) return dropped;
  for (const auto& name : dataset.rows()->column_names())
    if (!has_name(used, name)) dropped.push_back(name);
  return dropped;
}

}  // namespace

std::string label_column(const Dataset& dataset) {
  for (const char* name : {"label", "labels", "label_ids"})
    if (dataset.has_column(name)) return name;
  return "";
}

bool keeps_labels(const DataCollator& collator) {
  return !collator || is_default(collator) ||
         collator.target<DataCollatorWithPadding>() != nullptr ||
         collator.target<DataCollatorForTokenClassification>() != nullptr ||
         collator.target<DataCollatorForSeq2Seq>() != nullptr;
}

std::vector<std::string> missing_labels(const LoaderRecipe& recipe, const Dataset& dataset) {
  std::vector<std::string> missing;
  if (!keeps_labels(recipe.data_collator)) return missing;
  const Dataset used = without_unused_columns(dataset, recipe);
  for (const std::string& name : label_names(recipe)) {
    const bool is_there =
        used.has_column(name) || (name == "labels" && !label_column(used).empty());
    if (!is_there) missing.push_back(name);
  }
  return missing;
}

std::string how_to_name_labels(const TrainerDataset& dataset, const LoaderRecipe& recipe) {
  const auto dropped = dropped_columns(dataset, recipe);
  const auto wanted = label_names(recipe);
  std::string text;
  if (!dropped.empty())
    text = "Left out are " + join(dropped, ", ") + ", because " + recipe.model.name() +
           " takes no column of " + (dropped.size() == 1 ? "that name" : "those names") + ". ";
  return text + "Call the column of the labels '" + join(wanted, "', '") +
         "' (rename_column), or give a data_collator that makes labels";
}

void check_rows_fit(const LoaderRecipe& recipe, const Dataset& used, std::int64_t batch_size,
                    const std::string& where) {
  if (used.size() == 0) return;
  check_strings(recipe.collator(), used, where);
  const bool only_stacks =
      recipe.data_collator ? is_default(recipe.data_collator) : !recipe.processing_class;
  if (only_stacks && used.has_column("input_ids")) check_lengths(used, batch_size, where);
}

}  // namespace accelerate::detail
