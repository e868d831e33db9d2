#include "accelerate/comm/socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/tcp.h"
#include "accelerate/comm/diagnosis.h"

namespace accelerate::detail {
namespace {

std::string endpoint(const std::string& host, int port) {
  return host + ":" + std::to_string(port);
}

ResolvedHost resolve(const std::string& host, int port) {
  ResolvedHost found = resolve_host(host, port);
  if (found.error == 0) return found;
  throw CommError(
      "MASTER_ADDR '" + host + "' does not resolve to an address: " + gai_strerror(found.error),
      error_name::kRanksDoNotMeet);
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto number = ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
    return number >> 24 == IN_LOOPBACKNET;
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

[[noreturn]] void throw_bind_error(const std::string& host, int port, int error) {
  const std::string start = "rank 0 cannot listen on " + endpoint(host, port) + ": ";
  if (error == EADDRINUSE) {
    throw CommError(start +
                        "the port is taken. Another job may be using it; choose another one with "
                        "MASTER_PORT, or let `accelerate launch` pick a free one.",
                    error_name::kPortTaken);
  }
  if (error == EADDRNOTAVAIL) {
    throw CommError(
        start +
            "that is not an address of this machine. MASTER_ADDR must be the address of the "
            "machine that runs rank 0.",
        error_name::kRanksDoNotMeet);
  }
  throw CommError(start + std::strerror(error));
}

}  // namespace

void require_loopback_is_up(const std::string& host, int port) {
  if (!is_loopback(*resolve(host, port).addresses->ai_addr)) return;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if ((one->ifa_flags & IFF_LOOPBACK) != 0 && (one->ifa_flags & IFF_UP) != 0) return;
  }
  throw CommError(
      "MASTER_ADDR '" + host +
      "' is the loopback of this machine, whose interface is down: no rank would reach "
      "another. Bring it up (`ip link set lo up`), or set MASTER_ADDR to another address "
      "of this machine.");
}

int bind_only(const std::string& host, int port) {
  Listening bound = listen_on(*resolve(host, port).addresses);
  if (bound.error != 0) throw_bind_error(host, port, bound.error);
  return bound.socket.release();
}

std::string wait_until_reachable(const std::string& host, int port, const Deadline& deadline,
                                 const std::function<void(std::chrono::milliseconds)>& report) {
  constexpr std::chrono::milliseconds kRetry{20};
  auto next_report = kWaitSlice;
  for (;;) {
    const ResolvedHost found = resolve(host, port);
    for (const addrinfo* one = found.addresses.get(); one != nullptr; one = one->ai_next) {
      const auto limit = std::clamp(deadline.left(), std::chrono::milliseconds(1),
                                    std::chrono::milliseconds(1000));
      int refusal = 0;
      const Descriptor made = connect_within(*one, limit, refusal);
      if (made.valid()) return local_address_of(made.get());
    }
    if (deadline.is_over()) {
      throw CommError("nobody listened on " + endpoint(host, port) + " within the timeout of " +
                          format_duration(deadline.timeout()) +
                          ". Has rank 0 started, is MASTER_ADDR its machine's "
                          "address, and does a firewall let MASTER_PORT through?",
                      error_name::kRanksDoNotMeet);
    }
    if (deadline.waited() >= next_report) {
      report(deadline.waited());
      next_report += kWaitSlice;
    }
    std::this_thread::sleep_for(kRetry);
  }
}

}  // namespace accelerate::detail
