// Sockets between processes of one host that carry whole messages and file descriptors. Their names
// are abstract: they are in no folder, vanish with their socket, and are known only within one
// network namespace.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/comm/deadline.h"

namespace accelerate::detail {

/// Returns 128 random bits as 32 hexadecimal digits, from the system's generator. Throws CommError.
[[nodiscard]] std::string random_name();

/// Waits up to `limit`, at most a minute, until poll(2) reports one of `events` on `fd` or that its
/// peer closed it. Returns whether it did.
[[nodiscard]] bool is_ready(int fd, short events, std::chrono::milliseconds limit);

/// Returns a socket that listens under `name`. Throws CommError.
[[nodiscard]] Descriptor listen_locally(const std::string& name, int backlog);

/// Connects to the socket that listens under `name`. Returns an invalid descriptor if none does in
/// this network namespace, or if it does not accept before the deadline. Throws CommError.
[[nodiscard]] Descriptor connect_locally(const std::string& name, const Deadline& deadline);

/// Accepts the next waiting connection; nullopt if there is none.
[[nodiscard]] std::optional<Descriptor> accept_locally(int listener);

/// Returns the user of the process at the other end; -1 when the kernel does not say.
[[nodiscard]] uid_t user_behind(int connection);

/// Sends `message` and duplicates of `descriptors`, at most kMostDescriptors. Returns false if the
/// peer has gone or does not read before the deadline.
[[nodiscard]] bool send_message(int connection, std::string_view message,
                                const std::vector<int>& descriptors, const Deadline& deadline);

struct SocketMessage {
  bool closed = false;      ///< The peer has gone; there is no more.
  bool is_complete = true;  ///< False if descriptors could not be received (RLIMIT_NOFILE).
  std::string bytes;
  std::vector<Descriptor> descriptors;  ///< Closed when another program is executed.
};

/// Receives the next waiting message, of at most kMostMessageBytes; nullopt if there is none.
[[nodiscard]] std::optional<SocketMessage> receive_message(int connection);

inline constexpr std::size_t kMostDescriptors = 64;  // Linux takes 253
inline constexpr std::size_t kMostMessageBytes = std::size_t{16} << 10;

}  // namespace accelerate::detail
