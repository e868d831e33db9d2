// c10d's Gloo engine, made from plain C++.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accelerate::detail {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  std::string address;  ///< Local address that peers connect to; it listens on no other.
};

/// Connects to all peers through `store`. [collective] Throws what c10d throws. If
/// GLOO_SOCKET_IFNAME is set, it names the network interface and `options.address` is not used.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const GlooOptions& options);

}  // namespace accelerate::detail
