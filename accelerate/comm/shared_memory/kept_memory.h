// Keeps memory after its owner is done with it, because peers may still read it or write to it.
#pragma once

#include <functional>
#include <memory>

namespace accelerate::detail {

/// Keeps `memory` until `is_deserted`, which may read it, returns true: no peer uses it any more.
void keep_until(std::shared_ptr<void> memory, std::function<bool()> is_deserted);

/// Releases kept memory that is now deserted. To be called before new memory is allocated. Cost: 20
/// ns, and a call of is_deserted for each memory that is kept.
void release_deserted();

/// Keeps `memory` to the end of the process, for peers that may still write to it and will not say
/// when they are done.
void keep_forever(std::shared_ptr<void> memory);

}  // namespace accelerate::detail
