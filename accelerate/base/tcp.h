// TCP sockets on the addresses that a name stands for.
#pragma once

#include <netdb.h>

#include <chrono>
#include <memory>
#include <string>

#include "accelerate/base/descriptor.h"

namespace accelerate {

/// What a host and a port resolve to.
struct ResolvedHost {
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses{nullptr, &freeaddrinfo};
  int error = 0;  ///< Of getaddrinfo, for gai_strerror; 0 if there are addresses.
};

/// Resolves `host`, a name or an address of either family. Cost: may ask a name server.
[[nodiscard]] ResolvedHost resolve_host(const std::string& host, int port);

/// The numeric address, without its port; empty if it is neither IPv4 nor IPv6.
[[nodiscard]] std::string numeric_address(const addrinfo& address);

/// Whether no other machine can reach the address: 127.0.0.0/8 and ::1.
[[nodiscard]] bool is_loopback(const addrinfo& address);

/// A socket that listens, or why none does.
struct Listening {
  Descriptor socket;
  int port = 0;   ///< The one that the kernel chose if 0 was asked for.
  int error = 0;  ///< The errno of the last address tried; 0 if the socket listens.
};

/// Listens on the first of `addresses` that can be had, and on no other. A port that an earlier
/// program left in TIME_WAIT counts as free; a port that somebody listens on does not.
[[nodiscard]] Listening listen_on(const addrinfo& addresses);

/// Returns a connection that was made within `limit`, else a descriptor that owns nothing. `error`:
/// set to the errno of a failure; ETIMEDOUT at the limit. The socket does not block.
[[nodiscard]] Descriptor connect_within(const addrinfo& address, std::chrono::milliseconds limit,
                                        int& error);

/// The numeric address of this end of a connection; empty if the system does not tell.
[[nodiscard]] std::string local_address_of(int socket);

/// Makes a connection fail after `limit`, at least 2 s: when data that was sent is not
/// acknowledged, or when the peer's kernel does not answer probes. By default that takes minutes to
/// hours. A peer that is merely slow still acknowledges.
void notice_lost_peer(int socket, std::chrono::milliseconds limit);

}  // namespace accelerate
