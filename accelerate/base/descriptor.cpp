#include "accelerate/base/descriptor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "accelerate/base/signal_guards.h"

namespace accelerate {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

int Descriptor::release() {
  return std::exchange(fd_, -1);
}

int Descriptor::close() {
  const int fd = release();
  if (fd < 0 || ::close(fd) == 0) return 0;
  // Linux has released the descriptor even when close was interrupted. So that is not a failure,
  // and close is never retried.
  return errno == EINTR ? 0 : errno;
}

namespace {

// write(2) takes at most about 2 GiB a call.
constexpr std::size_t kMostPerCall = std::size_t{1} << 30;

}  // namespace

int write_fully(int fd, std::string_view text) noexcept {
  const SuppressedSignal file_may_not_grow(SIGXFSZ);
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), std::min(text.size(), kMostPerCall));
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return errno;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int write_fully_at(int fd, off_t offset, std::string_view text) noexcept {
  const SuppressedSignal file_may_not_grow(SIGXFSZ);
  while (!text.empty()) {
    const ssize_t n = ::pwrite(fd, text.data(), std::min(text.size(), kMostPerCall), offset);
    if (n >= 0) {
      offset += n;
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace accelerate
