// What this process tries to reach over TCP without an answer.
#pragma once

#include <string>
#include <thread>

namespace accelerate::detail {

/// Returns the addresses to which this process has sent the first packet of a connection, without an
/// answer so far: "10.0.0.1:31622, [fd00::2]:4242"; "" if there are none, or /proc cannot be read.
/// An answer takes a round trip. So an address that stays for seconds is behind a firewall that
/// drops packets, or no host has it. Cost: reads the system's table of connections.
[[nodiscard]] std::string unanswered_addresses();

/// Watches for such addresses until it is destroyed, and logs a warning every five seconds while
/// there are any.
class UnansweredWatch {
 public:
  /// `who` connects: "rank 1 of 2". Starts a thread.
  explicit UnansweredWatch(std::string who);

  /// Ends the watch. Returns the addresses that had given no answer when it looked last.
  [[nodiscard]] std::string end();

 private:
  void run(const std::stop_token& stop);

  std::string who_;
  std::string last_;
  std::jthread thread_;  // Last, because it uses the others.
};

}  // namespace accelerate::detail
