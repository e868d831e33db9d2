// Socket functions that rendezvous needs and c10d's store does not offer.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <string>

#include "accelerate/base/signal_guards.h"
#include "accelerate/comm/deadline.h"

namespace accelerate::detail {

// Keeps SIGPIPE away from threads that write to connections.

/// While it lives, a write to a connection that the peer has closed does not raise SIGPIPE on the
/// calling thread, nor ever on threads that are started meanwhile. Gloo and c10d's store report such
/// a write as an error if the process survives it.
class WithoutBrokenPipes {
  SuppressedSignal pipe_{SIGPIPE};
};

/// Throws CommError if `host` is a loopback address and the loopback interface is down, as in a new
/// network namespace: connections would fail until the timeout.
void require_loopback_is_up(const std::string& host, int port);

/// Returns a TCP socket that listens on `host`:`port` and nothing else; the caller owns the file
/// descriptor. Throws CommError if the name does not resolve, the port is taken, or the address is
/// not one of this machine.
[[nodiscard]] int bind_only(const std::string& host, int port);

/// Waits until somebody listens on `host`:`port`, and calls `report(waited)` every 5 s. Returns the
/// local address of the connection. Throws CommError at the timeout, or immediately if the name
/// does not resolve.
std::string wait_until_reachable(const std::string& host, int port, const Deadline& deadline,
                                 const std::function<void(std::chrono::milliseconds)>& report);

}  // namespace accelerate::detail
