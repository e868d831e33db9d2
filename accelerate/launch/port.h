// The port on which rank 0 will listen.
#pragma once

#include <string>

namespace accelerate {

/// A port that nobody listens on at `address` now; the kernel's choice. Between this call and rank
/// 0 binding it another program may take it: rank 0 then says so. Throws LaunchError when none can
/// be had.
[[nodiscard]] int free_port(const std::string& address);

/// Whether rank 0 could listen on `port` (1 to 65535) of `address` now.
[[nodiscard]] bool port_is_free(const std::string& address, int port);

}  // namespace accelerate
