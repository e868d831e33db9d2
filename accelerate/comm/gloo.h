// c10d's Gloo engine, made from plain C++.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/comm/deadline.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accelerate::detail {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  GroupTimes times;
  std::string address;  ///< Local address that peers connect to; it listens on no other.
  /// Called while the peers' addresses are awaited; throws when a peer will never come.
  const std::function<void()>& look;
};

/// The meeting ended while connections between machines were missing. what() says where, in whole
/// sentences.
class BlockedError : public CommError {
 public:
  using CommError::CommError;
};

/// Throws ConfigError if GLOO_SOCKET_IFNAME names no network interface of this machine that has an
/// address; Gloo would say `ifa != nullptr`.
void check_socket_interface();

/// Connects to all peers through `store`. [collective] Throws what c10d throws, at
/// options.times.meeting at the latest unless a peer is stopped more than once, BlockedError then if
/// ranks are on several machines, and as check_socket_interface. If GLOO_SOCKET_IFNAME is set, it
/// names the network interface and `options.address` is not used. Logs every five seconds which
/// addresses give no answer.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const GlooOptions& options);

}  // namespace accelerate::detail
