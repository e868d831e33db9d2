// Data loaders over datasets of rows.
#pragma once

#include "accelerate/data/data_loader.h"
#include "accelerate/transformers/datasets/collators/data_collators.h"
#include "accelerate/transformers/datasets/dataset.h"
#include "accelerate/transformers/datasets/iterable_dataset.h"

namespace accelerate {

/// Returns a loader whose workers read rows of `dataset` and make them into batches by `collator`.
/// Otherwise as make_data_loader() in accelerate/data/data_loader.h.
[[nodiscard]] DataLoader<Inputs> make_data_loader(Dataset dataset, DataLoaderOptions options = {},
                                                  DataCollator collator = default_data_collator);
[[nodiscard]] DataLoader<Inputs> make_data_loader(IterableDataset dataset,
                                                  DataLoaderOptions options = {},
                                                  DataCollator collator = default_data_collator);

}  // namespace accelerate
