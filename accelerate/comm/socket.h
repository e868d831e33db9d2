// The few socket calls that rendezvous needs and c10d's store does not offer.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace accelerate::detail {

/// A bound TCP socket on `host`:`port` and nothing else, not yet listening; the caller owns the
/// file descriptor. Throws CommError: the name does not resolve, the port is taken, the address is
/// not ours.
[[nodiscard]] int bind_only(const std::string& host, int port);

/// Waits until somebody listens on `host`:`port`; `report(waited)` is called every 5 s. Returns the
/// local address from which the connection went out. Throws CommError at the timeout, at once when
/// the name does not resolve.
std::string wait_until_reachable(const std::string& host, int port,
                                 std::chrono::milliseconds timeout,
                                 const std::function<void(std::chrono::milliseconds)>& report);

}  // namespace accelerate::detail
