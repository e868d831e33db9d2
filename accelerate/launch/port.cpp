#include "accelerate/launch/port.h"

#include <cerrno>
#include <cstring>

#include "accelerate/base/error.h"
#include "accelerate/base/tcp.h"

namespace accelerate {
namespace {

Listening listen_at(const std::string& address, int port) {
  const ResolvedHost host = resolve_host(address, port);
  if (host.error != 0) {
    throw ConfigError("main_process_ip is '" + address +
                      "', which is not an address of a machine: " + gai_strerror(host.error) +
                      ". Ranks on one machine need none; leave it out.");
  }
  return listen_on(*host.addresses);
}

}  // namespace

int free_port(const std::string& address) {
  const Listening found = listen_at(address, 0);
  if (found.error == EADDRNOTAVAIL) {
    throw ConfigError("main_process_ip is '" + address +
                      "', which is not an address of this machine, so rank 0 could not listen "
                      "there. Ranks on one machine need none; leave it out.");
  }
  if (found.error != 0) {
    throw LaunchError("there is no free port on " + address + ": " + std::strerror(found.error));
  }
  return found.port;
}

bool is_address_of_this_machine(const std::string& address) {
  const ResolvedHost host = resolve_host(address, 0);
  return host.error == 0 && listen_on(*host.addresses).error != EADDRNOTAVAIL;
}

bool port_is_free(const std::string& address, int port) {
  return listen_at(address, port).error != EADDRINUSE;
}

}  // namespace accelerate
