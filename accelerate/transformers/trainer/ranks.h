// What a Trainer says, and what its ranks do together.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "accelerate/base/logger.h"

namespace accelerate {
class Accelerator;
}

namespace accelerate::detail {

/// Logs as "accelerate.trainer".
[[nodiscard]] Logger trainer_logger();

/// Prints `text` once for all ranks, without what a terminal would obey: names of metrics, classes
/// and folders come from files and from the hub.
void say(const Accelerator& accelerator, std::string_view text);

/// Returns the sums of the ranks' values, element by element. [collective]
[[nodiscard]] std::vector<double> sum_of_ranks(Accelerator& accelerator,
                                               const std::vector<double>& mine);

/// Returns the least of the ranks' values. [collective]
[[nodiscard]] std::int64_t least_of_ranks(Accelerator& accelerator, std::int64_t mine);

/// Runs `action` on the main process alone. An Error there becomes a ConfigError on every rank.
/// [collective]
void on_main_process(Accelerator& accelerator, const std::function<void()>& action);

}  // namespace accelerate::detail
