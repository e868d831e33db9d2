// Acts on the connections of c10d's TCP store, which c10d does not expose.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace accelerate::detail {

/// Makes this process's connections to `host`:`port` fail after `limit` (at least a second, at most
/// a minute): when sent data is not acknowledged, when a read gets no answer, or when the peer does
/// not answer probes. By default the kernel tries for a quarter of an hour. An error that asks the
/// store about the peers would wait as long. The kernel of a busy host still acknowledges. Returns
/// the number of connections.
int notice_lost_host(const std::string& host, int port, std::chrono::milliseconds limit);

/// Whether this process has connections to `host`:`port` and the peer has closed all of them. A
/// query to a store that is gone would fail too, but c10d would print a stack trace.
[[nodiscard]] bool host_has_left(const std::string& host, int port);

/// If it lives for longer than `limit`, it closes the connections to `host`:`port` that this
/// process has made since its construction, and all new ones until its end. It is needed because
/// c10d's store waits without a limit for its host to answer, and the kernel accepts connections
/// for a stopped process. When ranks are threads of one process, the connections that other ranks
/// make meanwhile are closed too.
class GreetingLimit {
 public:
  GreetingLimit(const std::string& host, int port, std::chrono::milliseconds limit);
  ~GreetingLimit();
  GreetingLimit(const GreetingLimit&) = delete;
  GreetingLimit& operator=(const GreetingLimit&) = delete;

  /// Whether the limit is over. A failed connection attempt was then closed by this object.
  [[nodiscard]] bool is_over() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace accelerate::detail
