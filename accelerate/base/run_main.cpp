#include "accelerate/base/run_main.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_file.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/terminal/live_lines.h"
#include "accelerate/base/untrusted_text.h"

namespace accelerate::detail {
namespace {

constexpr std::chrono::milliseconds kTimeToAgree{300};

// A program may fail before it has joined its group.
ProcessIdentity own_identity() {
  const ProcessIdentity& identity = process_identity();
  return identity.initialized ? identity : identity_from_environment();
}

// Returns whether this process is the first of its group on this machine to say `text`. The claim
// is a name of a socket, which the system forgets when the process ends.
bool claims(const std::string& text) {
  const std::string name = "accelerate-said-" + std::to_string(std::hash<std::string>()(text)) +
                           "-" + std::to_string(::getuid()) + "-" +
                           env("MASTER_PORT").value_or("") + "-" + env("MASTER_ADDR").value_or("");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);  // A 0 in front: it is no file.
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return true;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), bytes) == 0 ||
         errno != EADDRINUSE;  // Left open on purpose.
}

// Drops LibTorch's stack frames, and what a terminal would obey.
std::string shown_text(std::string_view text) {
  return untrusted_text(text.substr(0, text.find("\nException raised from ")),
                        std::string_view::npos);
}

// A rank that lost another one says so only if nobody ends it within a moment.
void say_once(const std::string& text, bool is_consequence) {
  const bool has_peers = own_identity().world_size > 1;
  if (has_peers && is_consequence) std::this_thread::sleep_for(kTimeToAgree);
  if (has_peers && !claims(text)) return;
  print_above_live_lines(
      STDERR_FILENO, std::string(program_invocation_short_name) + ": " + shown_text(text) + "\n");
  if (has_peers) std::this_thread::sleep_for(kTimeToAgree);
}

int end_as_asked(const ProgramEnd& end, const std::exception& error) {
  if (end.exit_code() != 0) {
    say_once(describe(error), false);
  } else if (own_identity().is_main_process()) {
    print_above_live_lines(STDOUT_FILENO, error.what());
  }
  return end.exit_code();
}

}  // namespace

int run_guarded(const std::function<int()>& program) noexcept {
  try {
    try {
      return program();
    } catch (const std::exception& error) {
      if (const auto* end = dynamic_cast<const ProgramEnd*>(&error))
        return end_as_asked(*end, error);
      write_error_file(error);  // First: a rank that lost another one may be ended any moment.
      say_once(describe(error), dynamic_cast<const CommError*>(&error) != nullptr);
    }
  } catch (...) {
    write_error_file(Error("an exception that is not a std::exception was thrown"));
    print_above_live_lines(STDERR_FILENO, "an exception that is not a std::exception was thrown\n");
  }
  return 1;
}

}  // namespace accelerate::detail
