// The port on which rank 0 will listen.
#pragma once

#include <string>

namespace accelerate {

/// Returns a port, chosen by the kernel, on which nobody listens at `address` now. Another program
/// may take it before rank 0 binds it; rank 0 then says so. Throws LaunchError when there is no
/// free port, ConfigError when `address` does not belong to this machine.
[[nodiscard]] int free_port(const std::string& address);

/// Whether rank 0 could listen at `address`; false also for a name that nobody knows.
[[nodiscard]] bool is_address_of_this_machine(const std::string& address);

/// Whether `port` (1 to 65535) of `address` is free now.
[[nodiscard]] bool port_is_free(const std::string& address, int port);

}  // namespace accelerate
