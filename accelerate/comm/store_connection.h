// The connections of c10d's TCP store, which it keeps to itself.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace accelerate::detail {

/// Makes this process's connections to `host`:`port` fail when what was sent is not acknowledged
/// for `limit` (at least a second, at most a minute), or when the peer is silent that long and does
/// not answer probes either. Left to itself the kernel goes on for a quarter of an hour, and so
/// would an error that wants to know from the store what became of the peers. A host that is there
/// and busy acknowledges all the same. Returns how many connections there are.
int notice_lost_host(const std::string& host, int port, std::chrono::milliseconds limit);

/// Whether the peer has closed all connections of this process to `host`:`port`, of which there are
/// some. A question to a store that is gone fails too, and c10d prints a stack trace for it.
[[nodiscard]] bool host_has_left(const std::string& host, int port);

/// While this lives, but for longer than `limit`, the connections to `host`:`port` that this process
/// has made since are closed, and new ones as well. c10d's store greets its host without a limit,
/// and for a process that is stopped the kernel accepts connections that nobody answers. Where ranks are
/// threads of one process, the connections of the other ranks are among them.
class GreetingLimit {
 public:
  GreetingLimit(const std::string& host, int port, std::chrono::milliseconds limit);
  ~GreetingLimit();
  GreetingLimit(const GreetingLimit&) = delete;
  GreetingLimit& operator=(const GreetingLimit&) = delete;

  /// Whether the limit is over, so that whoever greeted met a closed connection.
  [[nodiscard]] bool is_over() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace accelerate::detail
