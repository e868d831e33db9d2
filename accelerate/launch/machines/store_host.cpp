#include "accelerate/launch/machines/store_host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/launch/machines/store_server.h"

namespace accelerate::detail {
namespace {

// Each client takes a descriptor. The usual limit is 1,024, and what is allowed is more.
void open_as_many_files_as_allowed() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// A session of its own, no signals and no other descriptors: Ctrl-C is for the launcher, and the
// reader of a pipeline must not wait for this process.
[[noreturn]] void serve(Descriptor listener, std::map<std::string, std::string> values, int owner) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "accelerate-str");
  constexpr int kOwner = 0, kListener = 1;
  const int moved = fcntl(listener.release(), F_DUPFD, 3);
  dup2(owner, kOwner);
  dup2(moved, kListener);
  close_range(2, ~0U, 0);
  open_as_many_files_as_allowed();
  StoreServer(Descriptor(kListener), std::move(values)).run(kOwner);
  _exit(0);
}

}  // namespace

StoreHost::StoreHost(Descriptor listener, std::map<std::string, std::string> values) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw LaunchError(std::string("cannot open a pipe: ") + std::strerror(errno));
  }
  const Descriptor read_end(ends[0]);
  alive_ = Descriptor(ends[1]);
  pid_ = fork();
  if (pid_ < 0) {
    throw LaunchError(std::string("cannot start another process: ") + std::strerror(errno));
  }
  if (pid_ == 0) {
    alive_.close();
    serve(std::move(listener), std::move(values), read_end.get());
  }
}

StoreHost::~StoreHost() {
  alive_.close();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace accelerate::detail
