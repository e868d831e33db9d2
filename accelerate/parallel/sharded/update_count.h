// How often the ranks have updated a sharded model. A rank that skips or repeats an update has
// slices of another step than its peers. Where ranks gather by messages nothing else shows this.
#pragma once

#include <cstdint>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Throws UsageError, which names two ranks and their counts, unless all `counts` are equal. There
/// is one count per rank.
void require_equal_updates(const std::vector<std::int64_t>& counts);

/// Compares the counts of all ranks; this rank's is `updates`. [collective] Throws as the function
/// above.
void require_equal_updates(Communicator& ranks, std::int64_t updates);

}  // namespace accelerate::detail
