#include "accelerate/comm/socket.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/diagnosis.h"

namespace accelerate::detail {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

class Socket {
 public:
  explicit Socket(const addrinfo& address)
      : fd_(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string endpoint(const std::string& host, int port) {
  return host + ":" + std::to_string(port);
}

Addresses resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    throw CommError("MASTER_ADDR '" + host +
                    "' does not resolve to an address: " + gai_strerror(code));
  }
  return {found, &freeaddrinfo};
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
                    "MASTER_PORT, or let `accelerate launch` pick a free one.");
  }
  if (error == EADDRNOTAVAIL) {
    throw CommError(
        start +
        "that is not an address of this machine. MASTER_ADDR must be the address of the "
        "machine that runs rank 0.");
  }
  throw CommError(start + std::strerror(error));
}

std::string local_address(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  std::array<char, NI_MAXHOST> name{};
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), length, name.data(), name.size(), nullptr,
                  0, NI_NUMERICHOST) != 0) {
    throw CommError(std::string("cannot read the local address of a socket: ") +
                    std::strerror(errno));
  }
  return name.data();
}

// Returns the local address of a connection made within `limit`; nullopt if it was refused or timed
// out.
std::optional<std::string> try_connect(const addrinfo& address, std::chrono::milliseconds limit) {
  const Socket socket(address);
  if (socket.fd() < 0) return std::nullopt;
  fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return std::nullopt;
    pollfd poll_one{socket.fd(), POLLOUT, 0};
    if (poll(&poll_one, 1, static_cast<int>(limit.count())) <= 0) return std::nullopt;
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return std::nullopt;
  }
  return local_address(socket.fd());
}

}  // namespace

void require_loopback_is_up(const std::string& host, int port) {
  const Addresses addresses = resolve(host, port);
  if (!is_loopback(*addresses->ai_addr)) return;
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
  const Addresses addresses = resolve(host, port);
  int error = 0;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    Socket socket(*address);
    const int yes = 1;
    // With this option a port that an earlier run left in TIME_WAIT counts as free; a port that
    // somebody listens on does not.
    if (socket.fd() >= 0) setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (socket.fd() >= 0 && bind(socket.fd(), address->ai_addr, address->ai_addrlen) == 0 &&
        listen(socket.fd(), SOMAXCONN) == 0) {
      return socket.release();
    }
    error = errno;
  }
  throw_bind_error(host, port, error);
}

std::string wait_until_reachable(const std::string& host, int port, const Deadline& deadline,
                                 const std::function<void(std::chrono::milliseconds)>& report) {
  constexpr std::chrono::milliseconds kRetry{20};
  auto next_report = kWaitSlice;
  for (;;) {
    const Addresses addresses = resolve(host, port);
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
      const auto limit = std::clamp(deadline.left(), std::chrono::milliseconds(1),
                                    std::chrono::milliseconds(1000));
      if (auto local = try_connect(*address, limit)) return *local;
    }
    if (deadline.is_over()) {
      throw CommError("nobody listened on " + endpoint(host, port) + " within the timeout of " +
                      format_duration(deadline.timeout()) +
                      ". Has rank 0 started, is MASTER_ADDR its machine's "
                      "address, and does a firewall let MASTER_PORT through?");
    }
    if (deadline.waited() >= next_report) {
      report(deadline.waited());
      next_report += kWaitSlice;
    }
    std::this_thread::sleep_for(kRetry);
  }
}

}  // namespace accelerate::detail
