// Which columns of a dataset hold labels, and what to say where none does.
#pragma once

#include <string>
#include <vector>

#include "accelerate/transformers/trainer/data/trainer_loaders.h"

namespace accelerate::detail {

/// Returns the column that becomes "labels": label, labels or label_ids; "" if there is none.
[[nodiscard]] std::string label_column(const Dataset& dataset);

/// Whether `collator` takes the rows' labels as they are. Other collators make labels; one of the
/// user's may do anything. Empty: the Trainer's choice, which keeps them.
[[nodiscard]] bool keeps_labels(const DataCollator& collator);

/// Returns the labels that batches of `dataset` will lack. Empty where that is not known, because a
/// collator may make labels.
[[nodiscard]] std::vector<std::string> missing_labels(const LoaderRecipe& recipe,
                                                      const Dataset& dataset);

/// Returns a sentence that names the dropped columns and how to name the column of labels.
[[nodiscard]] std::string how_to_name_labels(const TrainerDataset& dataset,
                                             const LoaderRecipe& recipe);

/// Throws ConfigError, which begins with `where`, for a column of strings that the collator would
/// refuse, and for rows of unequal length that nothing pads. Looks at the first 1,000 rows, cut
/// into batches of `batch_size`.
void check_rows_fit(const LoaderRecipe& recipe, const Dataset& used, std::int64_t batch_size,
                    const std::string& where);

}  // namespace accelerate::detail
