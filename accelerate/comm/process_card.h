// What a rank tells its peers about its process, so that their errors can name the process.
#pragma once

#include <string>

namespace accelerate::detail {

/// Describes this process to peers: its process ID, its host name, and the boot and the process
/// namespace it runs in.
[[nodiscard]] std::string own_process_card();

/// Returns "process 1234". Appends ", which is stopped" or ", which has died" if that can be seen
/// from here, or " on node-b" if the process is on another host. Returns "" for an invalid card.
[[nodiscard]] std::string describe_process(const std::string& card);

}  // namespace accelerate::detail
