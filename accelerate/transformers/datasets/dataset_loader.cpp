#include "accelerate/transformers/datasets/dataset_loader.h"

#include <utility>

namespace accelerate {

// The template arguments are explicit, because otherwise these functions would call themselves.
DataLoader<Inputs> make_data_loader(Dataset dataset, DataLoaderOptions options,
                                    DataCollator collator) {
  return make_data_loader<Dataset, DataCollator>(std::move(dataset), std::move(options),
                                                 std::move(collator));
}

DataLoader<Inputs> make_data_loader(IterableDataset dataset, DataLoaderOptions options,
                                    DataCollator collator) {
  return make_data_loader<IterableDataset, DataCollator>(std::move(dataset), std::move(options),
                                                         std::move(collator));
}

}  // namespace accelerate
