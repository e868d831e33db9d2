#include "accelerate/comm/shared_memory/process_handle.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

struct Status {
  char state = '?';   // 'T' and 't': stopped; 'Z' and 'X': ended
  std::string began;  // start time, in clock ticks since the machine started
};

// Reads /proc/<pid>/stat. The name in it may contain anything, even brackets and blanks, so fields
// are counted from its end. The state is the third field, the start time the twenty-second.
Status status_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_ends = line.rfind(')');
  if (name_ends == std::string::npos) return {};
  std::istringstream fields(line.substr(name_ends + 1));
  Status status;
  fields >> status.state;
  for (int field = 4; field <= 22; ++field) fields >> status.began;
  return status;
}

// Returns the ID of the process behind `pidfd` in our namespace; 0 if it has none there.
pid_t pid_behind(int pidfd) {
  std::ifstream file("/proc/self/fdinfo/" + std::to_string(pidfd));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Pid:")) continue;
    const auto pid = parse_int(trim(line.substr(4)));
    return pid && *pid > 0 ? static_cast<pid_t>(*pid) : 0;
  }
  return 0;
}

thread_local std::string pretended_machine;

}  // namespace

ProcessHandle ProcessHandle::self() {
  Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!pidfd.valid() && (errno == EMFILE || errno == ENFILE)) {
    throw CommError(
        "this process has reached its limit of open files (RLIMIT_NOFILE) and cannot get the "
        "descriptor by which the other ranks notice its end: raise `ulimit -n`.",
        error_name::kTooManyOpenFiles);
  }
  return {std::move(pidfd), ::getpid()};
}

ProcessHandle::ProcessHandle(Descriptor pidfd, pid_t pid)
    : pidfd_(std::move(pidfd)), pid_(pidfd_.valid() ? pid_behind(pidfd_.get()) : pid) {
  if (!pidfd_.valid()) began_ = status_of(pid_).began;
}

bool ProcessHandle::is_alive() const noexcept {
  if (pid_ == ::getpid()) return true;
  if (pidfd_.valid()) {
    pollfd ended{pidfd_.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) <= 0;
  }
  if (::kill(pid_, 0) != 0 && errno == ESRCH) return false;
  try {
    const Status status = status_of(pid_);
    return status.state != 'Z' && status.state != 'X' && status.began == began_;
  } catch (...) {
    return true;  // out of memory: the next call will tell
  }
}

std::string ProcessHandle::describe() const {
  const std::string name =
      pid_ == 0 ? "a process of another container" : "process " + std::to_string(pid_);
  if (!is_alive()) return name + ", which has died";
  const char state = pid_ == 0 ? '?' : status_of(pid_).state;
  return state == 'T' || state == 't' ? name + ", which is stopped" : name;
}

PretendedMachine::PretendedMachine(std::string name) {
  pretended_machine = std::move(name);
}

PretendedMachine::~PretendedMachine() {
  pretended_machine.clear();
}

std::string boot_id() {
  if (!pretended_machine.empty()) return pretended_machine;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::uint64_t process_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace accelerate::detail
