// Memory that outlives its owner's use of it, because peers may still look at it or write to it.
#pragma once

#include <functional>
#include <memory>

namespace accelerate::detail {

/// Holds `memory` until `is_deserted`, which may look into it, says that no peer uses it any more.
void keep_until(std::shared_ptr<void> memory, std::function<bool()> is_deserted);

/// Lets go of what is deserted by now. For whoever is about to take memory. Cost: 20 ns, and a look
/// at each that is held.
void release_deserted();

/// Holds `memory` to the end of the process: a peer that was not heard of may still write to it.
void keep_forever(std::shared_ptr<void> memory);

}  // namespace accelerate::detail
