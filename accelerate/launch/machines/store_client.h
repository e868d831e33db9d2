// A client of a store of c10d: StoreServer, or the one that torchrun hosts.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"

namespace accelerate::detail {

/// The store cannot be used any more, or what answers is none. The message is a clause: "it closed
/// the connection".
class StoreError : public LaunchError {
 public:
  using LaunchError::LaunchError;
};

/// Keys are those of c10d's users, without the "/" that its stores put before them.
class StoreClient {
 public:
  /// Takes over a connection and greets. Throws StoreError if no store answers within `limit`, which
  /// also bounds every later answer. The connection is noticed to be lost within 4 s.
  StoreClient(Descriptor connection, std::chrono::milliseconds limit);

  void set(const std::string& key, std::string_view value);
  /// The key must be there.
  [[nodiscard]] std::string get(const std::string& key);
  /// Returns what is there then: `wanted` if there was nothing.
  [[nodiscard]] std::string set_if_missing(const std::string& key, std::string_view wanted);
  [[nodiscard]] bool has(const std::string& key);
  std::int64_t add(const std::string& key, std::int64_t by);
  /// As has() for each of many keys, at the cost of one round trip.
  [[nodiscard]] std::vector<bool> has_each(const std::vector<std::string>& keys);
  /// As get() for each of many keys, at the cost of a round trip for a thousand of them.
  [[nodiscard]] std::vector<std::string> get_each(const std::vector<std::string>& keys);
  /// Waits until all `keys` are there; false if `limit` passes first.
  [[nodiscard]] bool wait(const std::vector<std::string>& keys, std::chrono::milliseconds limit);

  /// Begins to wait for a key. Until wait_is_over() says true, fd() is the only other thing that may
  /// be used; it becomes readable then.
  void begin_wait(const std::string& key);
  /// Whether the key is there. Does not block. Throws StoreError if the connection is lost.
  [[nodiscard]] bool wait_is_over();
  [[nodiscard]] int fd() const { return connection_.get(); }

  /// Takes a wait back. Returns whether all its keys had come.
  bool stop_waiting();

  /// Counts this client among those that the constructor of c10d's store waits for.
  void count_in();

  /// How many queries it has sent. Taking back a wait and repeating it counts as nothing.
  [[nodiscard]] std::int64_t queries() const { return queries_; }

 private:
  void send(const std::string& bytes, std::int64_t queries = 1);
  void receive(void* into, std::size_t count);
  [[nodiscard]] std::string receive_text();
  template <typename Number>
  [[nodiscard]] Number receive_number();
  [[nodiscard]] bool readable_within(std::chrono::milliseconds limit) const;

  Descriptor connection_;
  std::chrono::milliseconds limit_;
  std::int64_t queries_ = 0;
};

}  // namespace accelerate::detail
