// What a rank tells of its process, so that the errors of others can name it.
#pragma once

#include <string>

namespace accelerate::detail {

/// This process: its number, its host, and what tells whether two ranks share a host.
[[nodiscard]] std::string own_process_card();

/// "process 1234", with ", which is stopped" or ", which has died" where that can be seen from
/// here, or " on node-b" where it is another host; "" for what is no card.
[[nodiscard]] std::string describe_process(const std::string& card);

}  // namespace accelerate::detail
