// Loaders over datasets of rows.
#pragma once

#include "accelerate/data/data_loader.h"
#include "accelerate/datasets/collators/data_collators.h"
#include "accelerate/datasets/dataset.h"
#include "accelerate/datasets/iterable_dataset.h"

namespace accelerate {

/// Batches of `dataset` as `collator` makes them of its rows, in the workers of the loader.
/// Otherwise as make_data_loader() of accelerate/data/data_loader.h.
[[nodiscard]] DataLoader<Inputs> make_data_loader(Dataset dataset, DataLoaderOptions options = {},
                                                  DataCollator collator = default_data_collator);
[[nodiscard]] DataLoader<Inputs> make_data_loader(IterableDataset dataset,
                                                  DataLoaderOptions options = {},
                                                  DataCollator collator = default_data_collator);

}  // namespace accelerate
