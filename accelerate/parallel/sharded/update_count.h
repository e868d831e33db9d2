// How often the ranks have updated a sharded model. A rank that skips or repeats an update has
// slices of another step than its peers, which nothing else shows where ranks gather by messages.
#pragma once

#include <cstdint>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Throws UsageError, which names two ranks and their counts, unless all of `counts`, one a rank,
/// are equal.
void require_equal_updates(const std::vector<std::int64_t>& counts);

/// Asks all ranks, of which this one has made `updates`. [collective] Throws as the other one.
void require_equal_updates(Communicator& ranks, std::int64_t updates);

}  // namespace accelerate::detail
