#include "accelerate/data/stream_dataset.h"

namespace accelerate::detail {

void throw_read_twice() {
  throw UsageError(
      "a second pass was begun over an iterable dataset that is being read and cannot be copied; "
      "end the first pass, or give the loader a dataset that can be copied, or one with begin() "
      "and end(), which every pass calls anew.");
}

}  // namespace accelerate::detail
