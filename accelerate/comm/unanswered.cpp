#include "accelerate/comm/unanswered.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stop_token>
#include <utility>

#include "accelerate/base/logger.h"
#include "accelerate/base/signal_guards.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{500};
constexpr int kLooksPerWarning = 10;

// Returns the inodes of this process's sockets: its files are links to "socket:[4242]".
std::set<std::string> own_sockets() {
  std::set<std::string> inodes;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string target = std::filesystem::read_symlink(file.path(), ignored);
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

// `text`: an address as the kernel's table has it, words of 32 bits in the order of this machine, a
// colon and the port; all in hexadecimal digits.
std::optional<std::string> address_in(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos || colon % 8 != 0 || colon == 0 || colon > 32) return std::nullopt;
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < colon / 8; ++i)
    words[i] = static_cast<std::uint32_t>(std::stoul(text.substr(8 * i, 8), nullptr, 16));
  const bool is_v6 = colon == 32;
  std::array<char, INET6_ADDRSTRLEN> name{};
  if (inet_ntop(is_v6 ? AF_INET6 : AF_INET, words.data(), name.data(), name.size()) == nullptr)
    return std::nullopt;
  const std::string port = std::to_string(std::stoul(text.substr(colon + 1), nullptr, 16));
  return is_v6 ? "[" + std::string(name.data()) + "]:" + port : name.data() + (":" + port);
}

}  // namespace

std::string unanswered_addresses() {
  std::set<std::string> found;
  std::optional<std::set<std::string>> own;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // Names the columns.
    while (std::getline(file, line)) {
      std::istringstream columns(line);
      std::string number, here, there, state, queues, timer, retries, user, timeouts, inode;
      columns >> number >> here >> there >> state >> queues >> timer >> retries >> user >>
          timeouts >> inode;
      if (state != "02") continue;  // TCP_SYN_SENT
      if (!own) own = own_sockets();
      if (!own->contains(inode)) continue;
      if (const auto address = address_in(there)) found.insert(*address);
    }
  }
  return join({found.begin(), found.end()}, ", ");
}

UnansweredWatch::UnansweredWatch(std::string who) : who_(std::move(who)) {
  const BlockedSignals blocked;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

std::string UnansweredWatch::end() {
  thread_.request_stop();
  thread_.join();
  return last_;
}

void UnansweredWatch::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  const auto never = [] { return false; };
  for (int looks = 1;; ++looks) {
    wake.wait_for(lock, stop, kBetweenLooks, never);
    if (stop.stop_requested()) return;
    last_ = unanswered_addresses();
    if (last_.empty() || looks % kLooksPerWarning != 0) continue;
    get_logger("accelerate.comm")
        .warning(who_ + " has no answer from " + last_ +
                     ", where other ranks listen. Does a firewall drop what goes there?",
                 {.main_process_only = false});
  }
}

}  // namespace accelerate::detail
