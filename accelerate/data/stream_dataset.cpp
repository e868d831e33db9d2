#include "accelerate/data/stream_dataset.h"

namespace accelerate::detail {

void throw_read_twice() {
  throw UsageError(
      "a loader started a second pass over an iterable dataset while the first pass is running. "
      "This dataset cannot be copied. Finish the first pass, make the dataset copyable, or give it "
      "begin() and end(), which every pass calls again.");
}

}  // namespace accelerate::detail
