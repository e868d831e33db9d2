#include "tests/support/support.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace accelerate::testing {
namespace {

using Clock = std::chrono::steady_clock;

// Reads both pipes until both are closed or the deadline passes; returns false when it passed.
bool drain(std::array<int, 2> fds, std::array<std::string*, 2> sinks, Clock::time_point deadline) {
  std::array<pollfd, 2> polls = {pollfd{fds[0], POLLIN, 0}, pollfd{fds[1], POLLIN, 0}};
  int open = 2;
  while (open > 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    if (poll(polls.data(), 2, static_cast<int>(left.count())) <= 0) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      if (polls[i].fd < 0 || polls[i].revents == 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = read(polls[i].fd, buffer.data(), buffer.size());
      if (n > 0) {
        sinks[i]->append(buffer.data(), static_cast<std::size_t>(n));
      } else {
        polls[i].fd = -1;
        --open;
      }
    }
  }
  return true;
}

[[noreturn]] void become(const std::vector<std::string>& argv, const RunOptions& options) {
  for (const auto& [name, value] : options.env) {
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  if (!options.working_directory.empty() && chdir(options.working_directory.c_str()) != 0)
    _exit(126);
  std::vector<char*> pointers;
  for (const auto& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  _exit(127);
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "accelerate-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TemporaryFolder::write(const std::string& name,
                                             const std::string& text) const {
  const auto path = path_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

ScopedEnv::ScopedEnv(std::string name, const char* value) : name_(std::move(name)) {
  if (const char* before = std::getenv(name_.c_str())) {
    before_ = before;
    was_set_ = true;
  }
  value == nullptr ? unsetenv(name_.c_str()) : setenv(name_.c_str(), value, 1);
}

ScopedEnv::~ScopedEnv() {
  was_set_ ? setenv(name_.c_str(), before_.c_str(), 1) : unsetenv(name_.c_str());
}

RunResult run_program(const std::vector<std::string>& argv, const RunOptions& options) {
  std::array<int, 2> out{}, err{};
  if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe2 failed");
  }
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    become(argv, options);
  }
  setpgid(pid, pid);
  close(out[1]);
  close(err[1]);
  RunResult result;
  result.timed_out =
      !drain({out[0], err[0]}, {&result.out, &result.err}, Clock::now() + options.timeout);
  if (result.timed_out) kill(-pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  close(out[0]);
  close(err[0]);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string accelerate_program() {
  return std::string(ACCELERATE_BINARY_DIR) + "/bin/accelerate";
}

}  // namespace accelerate::testing
