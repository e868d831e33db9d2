#include "accelerate/base/tcp.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace accelerate {
namespace {

int port_of(int socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

Listening listen_on_one(const addrinfo& address) {
  Listening result;
  result.socket = Descriptor(
      socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
  const int on = 1;
  setsockopt(result.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(result.socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(result.socket.get(), SOMAXCONN) != 0) {
    result.error = errno;
    return result;
  }
  result.port = port_of(result.socket.get());
  return result;
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> name{};
  const bool told =
      getnameinfo(address, size, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return told ? name.data() : "";
}

int error_of(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

ResolvedHost resolve_host(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  ResolvedHost result;
  result.error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result.error == 0) result.addresses.reset(found);
  return result;
}

std::string numeric_address(const addrinfo& address) {
  return numeric(address.ai_addr, address.ai_addrlen);
}

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.ai_addr);
    return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address.ai_addr);
  return address.ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

Listening listen_on(const addrinfo& addresses) {
  Listening last;
  for (const addrinfo* one = &addresses; one != nullptr; one = one->ai_next) {
    last = listen_on_one(*one);
    if (last.error == 0) break;
  }
  return last;
}

Descriptor connect_within(const addrinfo& address, std::chrono::milliseconds limit, int& error) {
  Descriptor made(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         address.ai_protocol));
  error = made.valid() ? 0 : errno;
  if (error != 0) return {};
  if (connect(made.get(), address.ai_addr, address.ai_addrlen) == 0) return made;
  error = errno;
  if (error != EINPROGRESS) return {};
  pollfd one{made.get(), POLLOUT, 0};
  const int ready = poll(&one, 1, static_cast<int>(limit.count()));
  error = ready > 0 ? error_of(made.get()) : ETIMEDOUT;
  return error == 0 ? std::move(made) : Descriptor();
}

std::string local_address_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  return getsockname(socket, generic, &size) == 0 ? numeric(generic, size) : "";
}

void notice_lost_peer(int socket, std::chrono::milliseconds limit) {
  const auto seconds = std::max<int>(2, static_cast<int>(limit.count() / 1000));
  const int on = 1, first_probe = 1, between = 1, probes = seconds - 1;
  const unsigned unacknowledged = static_cast<unsigned>(seconds) * 1000;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &first_probe, sizeof first_probe);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof unacknowledged);
}

}  // namespace accelerate
