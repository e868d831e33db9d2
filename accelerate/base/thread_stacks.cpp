#include "accelerate/base/thread_stacks.h"

#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "accelerate/base/program_symbols.h"
#include "accelerate/base/signal_guards.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostFrames = 64;
constexpr auto kLimitOfAnswer = 250ms;
constexpr auto kLimitOfStuckHandler = 5s;
constexpr auto kLook = 200us;

// What the signal's handler touches. Nobody writes `frames` but the thread whose number `wanted`
// held and who replaced it by kTaken.
constexpr pid_t kNobody = 0, kTaken = -1, kDone = -2;
std::atomic<pid_t> wanted{kNobody};
std::array<void*, kMostFrames> frames;
std::atomic<int> frame_count{0};
// Set when a thread got stuck while it noted its stack. It may still write into `frames`.
std::atomic<bool> given_up{false};

void note_stack(int) {
  const int error = errno;
  auto me = static_cast<pid_t>(::syscall(SYS_gettid));
  if (wanted.compare_exchange_strong(me, kTaken)) {
    frame_count = ::backtrace(frames.data(), kMostFrames);
    wanted = kDone;
  }
  errno = error;
}

// Installs the handler for good, so that a signal that arrives late finds it. Returns whether it is
// installed; false where the program has a handler of its own.
bool install_stack_handler() {
  std::array<void*, 1> none{};
  (void)::backtrace(none.data(), 1);  // The first call loads a library, which a handler must not.
  struct sigaction present{};
  ::sigaction(kStackSignal, nullptr, &present);
  if ((present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == note_stack) return true;
  if ((present.sa_flags & SA_SIGINFO) != 0 || present.sa_handler != SIG_DFL) return false;
  struct sigaction action{};
  action.sa_handler = note_stack;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  return ::sigaction(kStackSignal, &action, nullptr) == 0;
}

std::string first_line_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

bool blocks_signal(const std::filesystem::path& task) {
  std::ifstream in(task / "status");
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with("SigBlk:")) continue;
    return ((std::strtoull(line.c_str() + 7, nullptr, 16) >> (kStackSignal - 1)) & 1) != 0;
  }
  return false;
}

// Returns the addresses on the stack of `thread`; empty if it does not answer.
std::vector<void*> addresses_of(pid_t thread) {
  if (given_up) return {};
  wanted = thread;
  if (::syscall(SYS_tgkill, ::getpid(), thread, kStackSignal) != 0) {
    wanted = kNobody;
    return {};
  }
  const auto end = Clock::now() + kLimitOfAnswer;
  while (wanted != kDone) {
    auto unanswered = thread;
    // A thread that has begun to answer is waited for, because it writes into `frames`.
    if (Clock::now() > end && wanted.compare_exchange_strong(unanswered, kNobody)) return {};
    given_up = Clock::now() > end + kLimitOfStuckHandler;
    if (given_up) return {};
    std::this_thread::sleep_for(kLook);
  }
  wanted = kNobody;
  return std::vector<void*>(frames.begin(), frames.begin() + frame_count);
}

// The first two frames are the handler and the kernel's return from it. The third is the exact
// place; what is further out are return addresses, which may belong to the next function.
std::vector<std::string> names_of(const std::vector<void*>& addresses, ProgramSymbols& symbols) {
  constexpr std::size_t kOfHandler = 2;
  std::vector<std::string> names;
  for (std::size_t i = kOfHandler; i < addresses.size(); ++i) {
    const auto* place = static_cast<const char*>(addresses[i]);
    names.push_back(symbols.name_of(i == kOfHandler ? place : place - 1));
  }
  return names;
}

}  // namespace

std::vector<ThreadStack> stacks_of_threads() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static ProgramSymbols symbols;
  const bool can_ask = install_stack_handler();
  const auto me = static_cast<pid_t>(::syscall(SYS_gettid));
  std::vector<ThreadStack> stacks;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    ThreadStack stack;
    stack.thread = static_cast<pid_t>(parse_int(task.path().filename().string()).value_or(0));
    if (stack.thread == me || stack.thread == 0) continue;
    stack.name = first_line_of(task.path() / "comm");
    if (!can_ask) {
      stack.why_not = "the program handles the signal that asks for stacks, SIGURG";
    } else if (blocks_signal(task.path())) {
      stack.why_not = "the thread blocks the signal that asks for its stack";
    } else if (stack.frames = names_of(addresses_of(stack.thread), symbols); stack.frames.empty()) {
      stack.why_not = "the thread did not answer";
    }
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

std::string to_text(const std::vector<ThreadStack>& stacks) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_body;  // In order of threads.
  for (const auto& stack : stacks) {
    std::string body = stack.why_not.empty() ? "" : "    (" + stack.why_not + ")\n";
    for (const auto& frame : stack.frames) body += "    " + frame + "\n";
    const std::string who = stack.name + " " + std::to_string(stack.thread);
    const auto same = std::ranges::find(by_body, body, [](const auto& one) { return one.first; });
    if (same != by_body.end()) {
      same->second.push_back(who);
    } else {
      by_body.push_back({body, {who}});
    }
  }
  std::string text;
  for (const auto& [body, threads] : by_body) {
    text += "  " + std::string(threads.size() == 1 ? "thread " : "threads ") + join(threads, ", ") +
            ":\n" + body;
  }
  return text;
}

}  // namespace accelerate
