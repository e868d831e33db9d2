// What a Trainer prints.
#pragma once

#include <string_view>

namespace accelerate {
class Accelerator;
}

namespace accelerate::detail {

/// Prints `text` once for all ranks, without what a terminal would obey: names of metrics, classes
/// and folders come from files and from the hub.
void say(const Accelerator& accelerator, std::string_view text);

}  // namespace accelerate::detail
