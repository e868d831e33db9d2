// The address and port of a job's store, for the launcher that holds it and for those that come.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/tcp.h"

namespace accelerate::detail {

struct StorePlaceOptions {
  std::string address;  ///< A name or an address, of either family.
  int port = 0;
  /// Whether the launcher on the machine with the address holds the store, whichever that is.
  bool is_where_it_can_be = false;
  bool name_comes_later = false;                        ///< Whether the name may not be known yet.
  std::chrono::milliseconds timeout{};                  ///< For the store to be reached.
  std::function<void(const std::string&)> report = {};  ///< Is told what is waited for.
};

class StorePlace {
 public:
  explicit StorePlace(StorePlaceOptions options) : options_(std::move(options)) {}

  /// "10.0.0.1:29500", "[fe80::1]:29500"; once a name was resolved "node0:29500 (10.0.0.1)", since
  /// other machines may know another address under it.
  [[nodiscard]] std::string text() const;
  /// Why other machines may not reach it, as a sentence; "" if nothing says so. Known once the name
  /// was resolved.
  [[nodiscard]] std::string doubt() const;
  /// Returns the socket on which this launcher's store is to listen; an invalid one if another
  /// launcher is to hold the store. Throws ConfigError if the address is not one of this machine,
  /// and LaunchError if the port is taken.
  [[nodiscard]] Descriptor listen();
  /// Returns a connection. Throws LaunchError at the timeout, ConfigError if the name is none.
  [[nodiscard]] Descriptor connect();

 private:
  void remember(const ResolvedHost& found);

  StorePlaceOptions options_;
  std::string resolved_;       // What the address stands for here, if it is a name.
  bool is_only_here_ = false;  // Whether that is loopback, by which no other machine comes.
};

}  // namespace accelerate::detail
