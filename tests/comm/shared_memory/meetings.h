// Meetings of ranks that are threads of the test, and what such a meeting may leave behind.
#pragma once

#include <fcntl.h>

#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "accelerate/comm/shared_memory/peers.h"

namespace accelerate::testing {

/// Lets nobody through before all have come.
class Turnstile {
 public:
  explicit Turnstile(int n) : barrier_(n) {}
  void wait() { barrier_.arrive_and_wait(); }

 private:
  std::barrier<> barrier_;
};

/// Runs `body` on `n` threads that have met; all leave together. Bodies must not throw.
inline void meet_as_threads(int n, const std::function<void(int, const detail::Hosts&)>& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::barrier<> everybody(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      const auto hosts = detail::meet_hosts(store, rank, n, std::chrono::seconds(30));
      body(rank, hosts);
      everybody.arrive_and_wait();
    });
  }
  for (auto& thread : threads) thread.join();
}

inline std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// Descriptors that a program executed by this one would inherit.
inline int inheritable_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++count;
  }
  return count;
}

/// Sockets with our kind of name in this network namespace, whoever made them.
inline int abstract_sockets_of_ours() {
  std::ifstream file("/proc/net/unix");
  int count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find("@accelerate/") != std::string::npos) ++count;
  }
  return count;
}

}  // namespace accelerate::testing
