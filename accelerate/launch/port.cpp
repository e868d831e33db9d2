#include "accelerate/launch/port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"

namespace accelerate {
namespace {

struct Bound {
  Descriptor socket;
  int port = 0;
  int error = 0;  // errno of the failure, 0 when bound
};

int port_of(int socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

// Sets SO_REUSEADDR as the ranks' store does, so that connections of a run that has just ended do
// not count.
Bound bind_to(const addrinfo& where) {
  Bound bound;
  bound.socket =
      Descriptor(socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol));
  const int on = 1;
  setsockopt(bound.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(bound.socket.get(), where.ai_addr, where.ai_addrlen) != 0 ||
      listen(bound.socket.get(), 1) != 0) {
    bound.error = errno;
    return bound;
  }
  bound.port = port_of(bound.socket.get());
  return bound;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Returns what `address` resolves to, or null and getaddrinfo's error.
std::pair<Addresses, int> resolve(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {Addresses(error == 0 ? found : nullptr, &freeaddrinfo), error};
}

Bound bind_to(const std::string& address, int port) {
  const auto [found, error] = resolve(address, port);
  if (error != 0) {
    throw ConfigError("main_process_ip is '" + address +
                      "', which is not an address of a machine: " + gai_strerror(error) +
                      ". Ranks on one machine need none; leave it out.");
  }
  return bind_to(*found);
}

}  // namespace

int free_port(const std::string& address) {
  const Bound bound = bind_to(address, 0);
  if (bound.error == EADDRNOTAVAIL) {
    throw ConfigError("main_process_ip is '" + address +
                      "', which is not an address of this machine, so rank 0 could not listen "
                      "there. Ranks on one machine need none; leave it out.");
  }
  if (bound.error != 0) {
    throw LaunchError("there is no free port on " + address + ": " + std::strerror(bound.error));
  }
  return bound.port;
}

bool is_address_of_this_machine(const std::string& address) {
  const auto [found, error] = resolve(address, 0);
  return error == 0 && bind_to(*found).error != EADDRNOTAVAIL;
}

bool port_is_free(const std::string& address, int port) {
  return bind_to(address, port).error != EADDRINUSE;
}

}  // namespace accelerate
