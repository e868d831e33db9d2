#include "tests/launch/support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace accelerate::testing {
namespace {

namespace fs = std::filesystem;

// The letter of /proc/PID/stat; 'Z' when the process is gone.
char state_of(const fs::path& process) {
  const std::string stat = text_of(process / "stat");
  const auto end = stat.rfind(')');
  return end == std::string::npos || end + 2 >= stat.size() ? 'Z' : stat[end + 2];
}

}  // namespace

std::string probe_program() {
  return std::string(ACCELERATE_BINARY_DIR) + "/tests/launch_probe";
}

std::string unique_tag() {
  static std::atomic<int> next{0};
  return "tag=" + std::to_string(getpid()) + "-" + std::to_string(next++) + "-";
}

int processes_tagged(const std::string& tag, char state) {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (text_of(entry.path() / "cmdline").find(tag) == std::string::npos) continue;
    const char found = state_of(entry.path());
    if (state == '\0' ? found != 'Z' : found == state) ++count;
  }
  return count;
}

bool eventually(const std::function<bool()>& done, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

LaunchPlan probe_plan(int ranks, std::vector<std::string> words) {
  LaunchPlan plan;
  plan.argv = {probe_program()};
  plan.argv.insert(plan.argv.end(), words.begin(), words.end());
  for (int rank = 0; rank < ranks; ++rank) plan.ranks.push_back({{"RANK", std::to_string(rank)}});
  return plan;
}

Background::Background(std::vector<std::string> argv, const std::string& output) {
  pid_ = fork();
  if (pid_ != 0) {
    setpgid(pid_, pid_);
    return;
  }
  setpgid(0, 0);
  dup2(open("/dev/null", O_RDONLY), 0);
  dup2(open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
  dup2(open((output + ".err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
  std::vector<char*> pointers;
  for (auto& word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  _exit(127);
}

Background::~Background() {
  if (ended_) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Background::signal(int number) const {
  kill(pid_, number);
}

int Background::wait(std::chrono::milliseconds limit) {
  int status = 0;
  const bool in_time = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, limit);
  if (!in_time) return -1;
  ended_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int entries(const std::string& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  try {
    return {std::istreambuf_iterator<char>(file), {}};
  } catch (const std::ios_base::failure&) {  // A process ended while its file in /proc was read.
    return {};
  }
}

}  // namespace accelerate::testing
