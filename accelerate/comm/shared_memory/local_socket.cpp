#include "accelerate/comm/shared_memory/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/base/file_error.h"
#include "accelerate/base/keyed_checksum.h"

namespace accelerate::detail {
namespace {

constexpr std::chrono::microseconds kRetry{200};
constexpr int kKind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

[[noreturn]] void throw_socket_error(const char* what, int error) {
  throw CommError(std::string("cannot ") + what + " a local socket: " + std::strerror(error) +
                      (error == EMFILE ? ". This process has reached its limit of open files "
                                         "(RLIMIT_NOFILE): raise `ulimit -n`."
                                       : "."),
                  name_of_errno(error));
}

Descriptor make_socket() {
  Descriptor socket(::socket(AF_UNIX, kKind, 0));
  if (!socket.valid()) throw_socket_error("make", errno);
  return socket;
}

// An abstract name begins with a zero byte, and its end is given by the length.
struct Address {
  explicit Address(const std::string& name) {
    const std::string path = "accelerate/" + name;
    address.sun_family = AF_UNIX;
    std::copy_n(path.begin(), std::min(path.size(), sizeof address.sun_path - 1),
                address.sun_path + 1);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t length = 0;
};

using Control = std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))>;

void attach(msghdr& message, Control& control, const std::vector<int>& descriptors) {
  if (descriptors.empty()) return;
  const std::size_t bytes = descriptors.size() * sizeof(int);
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
}

void detach(msghdr& message, std::vector<Descriptor>& descriptors) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
}

}  // namespace

std::string random_name() {
  if (auto digits = random_digits()) return *digits;
  throw CommError("the system gives no random bits (getrandom)");
}

bool is_ready(int fd, short events, std::chrono::milliseconds limit) {
  pollfd one{fd, events, 0};
  return ::poll(&one, 1, static_cast<int>(std::min<std::int64_t>(limit.count(), 60'000))) > 0;
}

Descriptor listen_locally(const std::string& name, int backlog) {
  Descriptor socket = make_socket();
  const Address address(name);
  if (::bind(socket.get(), address.get(), address.length) != 0) throw_socket_error("name", errno);
  if (::listen(socket.get(), backlog) != 0) throw_socket_error("listen on", errno);
  return socket;
}

Descriptor connect_locally(const std::string& name, const Deadline& deadline) {
  Descriptor socket = make_socket();
  const Address address(name);
  while (::connect(socket.get(), address.get(), address.length) != 0) {
    const bool is_crowded = errno == EAGAIN;  // the listener's backlog is full
    if (!is_crowded && errno != EINTR) return {};
    if (deadline.is_over()) return {};
    if (is_crowded) std::this_thread::sleep_for(kRetry);
  }
  return socket;
}

std::optional<Descriptor> accept_locally(int listener) {
  for (;;) {
    Descriptor connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.valid()) return connection;
    if (errno == EAGAIN) return std::nullopt;
    if (errno != EINTR && errno != ECONNABORTED)
      throw_socket_error("accept a connection to", errno);
  }
}

uid_t user_behind(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known = ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  return known ? peer.uid : static_cast<uid_t>(-1);
}

bool send_message(int connection, std::string_view message, const std::vector<int>& descriptors,
                  const Deadline& deadline) {
  iovec bytes{const_cast<char*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  alignas(cmsghdr) Control control{};
  attach(header, control, descriptors);
  while (::sendmsg(connection, &header, MSG_NOSIGNAL) < 0) {
    const bool is_full = errno == EAGAIN;
    const bool are_too_many_under_way = errno == ETOOMANYREFS;  // descriptors that this user sends
    if (!is_full && !are_too_many_under_way && errno != EINTR) return false;
    if (deadline.is_over()) return false;
    if (is_full) (void)is_ready(connection, POLLOUT, deadline.left());
    if (are_too_many_under_way) std::this_thread::sleep_for(kRetry);
  }
  return true;
}

std::optional<SocketMessage> receive_message(int connection) {
  SocketMessage message;
  message.bytes.resize(kMostMessageBytes);
  iovec bytes{message.bytes.data(), message.bytes.size()};
  alignas(cmsghdr) Control control{};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t length = 0;
  do {
    length = ::recvmsg(connection, &header, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0 && errno == EAGAIN) return std::nullopt;
  if (length > 0) detach(header, message.descriptors);
  message.closed = length <= 0;
  message.is_complete = (header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0;
  message.bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return message;
}

}  // namespace accelerate::detail
