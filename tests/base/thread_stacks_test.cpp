#include "accelerate/base/thread_stacks.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "accelerate/base/program_symbols.h"
#include "accelerate/base/signal_guards.h"

// Not exported: its name is only in the program's own table.
__attribute__((noinline)) static void spin_until(const std::atomic<bool>& done) {
  while (!done) std::atomic_signal_fence(std::memory_order_seq_cst);
}

namespace accelerate {
namespace {

// A thread called `name` that spins until the object dies.
class Spinner {
 public:
  explicit Spinner(const char* name, int blocked = 0)
      : thread_([this, name, blocked] {
          ::pthread_setname_np(::pthread_self(), name);
          sigset_t signals;
          ::sigemptyset(&signals);
          if (blocked != 0) ::sigaddset(&signals, blocked);
          ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
          ready_ = true;
          spin_until(done_);
        }) {
    while (!ready_) std::this_thread::yield();
  }
  ~Spinner() {
    done_ = true;
    thread_.join();
  }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

 private:
  std::atomic<bool> done_ = false, ready_ = false;
  std::thread thread_;
};

ThreadStack stack_of(const std::string& name) {
  for (auto& stack : stacks_of_threads()) {
    if (stack.name == name) return stack;
  }
  return {};
}

bool has_frame(const ThreadStack& stack, const std::string& function) {
  return std::ranges::any_of(stack.frames, [&](const std::string& frame) {
    return frame.find(function) != std::string::npos;
  });
}

TEST(ThreadStacks, NameFunctionsThatAreNotExported) {
  const Spinner spinner("spinner");
  const auto stack = stack_of("spinner");
  EXPECT_EQ(stack.why_not, "");
  EXPECT_TRUE(has_frame(stack, "spin_until(std::atomic<bool> const&) (test_base)"))
      << to_text({stack});
}

TEST(ThreadStacks, OfThreadsOfOurOwnAreShown) {
  const BlockedSignals blocked;
  const Spinner spinner("of our own");
  EXPECT_TRUE(has_frame(stack_of("of our own"), "spin_until"));
}

TEST(ThreadStacks, SayWhyThereIsNone) {
  const Spinner spinner("deaf", kStackSignal);
  EXPECT_NE(stack_of("deaf").why_not.find("blocks the signal"), std::string::npos);
}

TEST(ThreadStacks, OfEqualThreadsStandTogether) {
  const auto text = to_text({{7, "a", {"f"}, ""}, {8, "b", {"g"}, ""}, {9, "a", {"f"}, ""}});
  EXPECT_EQ(text, "  threads a 7, a 9:\n    f\n  thread b 8:\n    g\n");
}

TEST(ThreadStacks, LeaveTheHandlerOfTheProgramAlone) {
  EXPECT_EXIT(
      {
        ::signal(kStackSignal, [](int) { ::_exit(3); });
        const Spinner spinner("spinner");
        const auto stack = stack_of("spinner");
        ::_exit(stack.why_not.find("handles the signal") != std::string::npos ? 0 : 4);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(ProgramSymbols, GiveTheAddressWhereThereIsNoName) {
  ProgramSymbols symbols;
  EXPECT_EQ(symbols.name_of(nullptr), "0");
}

}  // namespace
}  // namespace accelerate
