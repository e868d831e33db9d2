#include "accelerate/comm/store_connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "accelerate/base/signal_guards.h"
#include "accelerate/base/tcp.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

using std::chrono::milliseconds;

// Returns e.g. "10.0.0.1 29500", also for an IPv4 address mapped to IPv6; empty for an address that
// is neither IPv4 nor IPv6.
std::string numeric(const sockaddr* address, socklen_t length) {
  constexpr std::string_view kMapped = "::ffff:";
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return {};
  if (getnameinfo(address, length, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  std::string_view name = host.data();
  if (name.starts_with(kMapped)) name.remove_prefix(kMapped.size());
  return std::string(name).append(" ").append(port.data());
}

std::set<std::string> addresses_of(const std::string& host, int port) {
  const ResolvedHost found = resolve_host(host, port);
  std::set<std::string> texts;
  for (const addrinfo* one = found.addresses.get(); one != nullptr; one = one->ai_next)
    texts.insert(numeric(one->ai_addr, one->ai_addrlen));
  return texts;
}

std::string peer_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto* peer = reinterpret_cast<sockaddr*>(&address);
  return getpeername(fd, peer, &length) == 0 ? numeric(peer, length) : "";
}

void limit_silence(int fd, milliseconds limit) {
  const auto set = [fd](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof(value));
  };
  const auto seconds = static_cast<int>(limit.count() / 1000);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit.count()));
  const timeval answer{seconds, 0};  // The kernel keeps the connection of a stopped host alive.
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &answer, sizeof(answer));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 2));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
}

// Returns this process's descriptors of connections to any of the addresses.
std::vector<int> connections_to(const std::set<std::string>& wanted) {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const auto fd = parse_int(entry.path().filename().string());
    if (fd && wanted.contains(peer_of(static_cast<int>(*fd)))) {
      found.push_back(static_cast<int>(*fd));
    }
  }
  return found;
}

std::vector<int> connections_to(const std::string& host, int port) {
  return connections_to(addresses_of(host, port));
}

bool was_closed_by_peer(int fd) {
  pollfd question{fd, POLLRDHUP, 0};
  return poll(&question, 1, 0) == 1 && (question.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

int notice_lost_host(const std::string& host, int port, milliseconds limit) {
  const auto connections = connections_to(host, port);
  for (const int fd : connections) {
    limit_silence(fd, std::clamp<milliseconds>(limit, milliseconds(1'000), milliseconds(60'000)));
  }
  return static_cast<int>(connections.size());
}

bool host_has_left(const std::string& host, int port) {
  const auto connections = connections_to(host, port);
  return !connections.empty() && std::ranges::all_of(connections, was_closed_by_peer);
}

struct GreetingLimit::State {
  std::set<std::string> addresses;
  std::vector<int> before;  // Connections that existed before, which stay open.
  std::atomic<bool> is_over = false;
  std::mutex mutex;
  std::condition_variable_any wake;
  std::jthread thread;

  // Closes connections repeatedly, because c10d reconnects until its own limit is over.
  void close_after(milliseconds limit, const std::stop_token& stop) {
    constexpr milliseconds kAgain{50};
    std::unique_lock lock(mutex);
    const auto never = [] { return false; };
    for (auto pause = limit; !stop.stop_requested(); pause = kAgain) {
      wake.wait_for(lock, stop, pause, never);
      if (!stop.stop_requested()) close_new_ones();
    }
  }

  void close_new_ones() {
    is_over = true;
    for (const int fd : connections_to(addresses)) {
      if (std::ranges::find(before, fd) == before.end()) shutdown(fd, SHUT_RDWR);
    }
  }
};

GreetingLimit::GreetingLimit(const std::string& host, int port, milliseconds limit)
    : state_(std::make_unique<State>()) {
  state_->addresses = addresses_of(host, port);
  state_->before = connections_to(state_->addresses);
  const BlockedSignals blocked;
  state_->thread = std::jthread([state = state_.get(), limit](const std::stop_token& stop) {
    state->close_after(limit, stop);
  });
}

GreetingLimit::~GreetingLimit() = default;

bool GreetingLimit::is_over() const {
  return state_->is_over;
}

}  // namespace accelerate::detail
