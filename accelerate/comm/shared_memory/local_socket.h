// Sockets between processes of one host that carry whole messages and file descriptors. Their names
// are abstract: they lie in no folder, vanish with their socket, and are known only within one
// network namespace.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

/// When a step of several waits has to be over.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }
  [[nodiscard]] std::chrono::milliseconds waited() const;
  /// Never negative.
  [[nodiscard]] std::chrono::milliseconds left() const;
  [[nodiscard]] bool is_over() const { return left().count() == 0; }

 private:
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// 128 random bits as 32 hexadecimal digits, from the system's generator. Throws CommError.
[[nodiscard]] std::string random_name();

/// Whether poll(2) says within `limit` that `fd` has one of `events` or was closed by its peer.
[[nodiscard]] bool is_ready(int fd, short events, std::chrono::milliseconds limit);

/// A socket that listens under `name`. Throws CommError.
[[nodiscard]] Descriptor listen_locally(const std::string& name, int backlog);

/// A connection to whoever listens under `name`; an invalid one when nobody does in this network
/// namespace, or not before the deadline. Throws CommError.
[[nodiscard]] Descriptor connect_locally(const std::string& name, const Deadline& deadline);

/// The next connection that waits, if one does.
[[nodiscard]] std::optional<Descriptor> accept_locally(int listener);

/// The user whose process is at the other end; -1 when the kernel does not say.
[[nodiscard]] uid_t user_behind(int connection);

/// Sends `message` and duplicates of `descriptors`, at most kMostDescriptors. False when the peer
/// has gone or does not read before the deadline.
[[nodiscard]] bool send_message(int connection, std::string_view message,
                                const std::vector<int>& descriptors, const Deadline& deadline);

struct SocketMessage {
  bool closed = false;      ///< The peer has gone; there is no more.
  bool is_complete = true;  ///< False when we could not take its descriptors (RLIMIT_NOFILE).
  std::string bytes;
  std::vector<Descriptor> descriptors;  ///< Closed when another program is executed.
};

/// The message that waits, of at most kMostMessageBytes; nullopt when none does.
[[nodiscard]] std::optional<SocketMessage> receive_message(int connection);

inline constexpr std::size_t kMostDescriptors = 64;  // Linux takes 253
inline constexpr std::size_t kMostMessageBytes = std::size_t{16} << 10;

}  // namespace accelerate::detail
