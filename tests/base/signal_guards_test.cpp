#include "accelerate/base/signal_guards.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

namespace accelerate {
namespace {

void say(const char* text) {
  std::fputs(text, stderr);
}

// Each body runs in a process of its own.
TEST(DeferredSigterm, EndsTheProcessWhenTheLastGuardGoes) {
  EXPECT_EXIT(
      {
        auto outer = std::make_unique<DeferredSigterm>();
        {
          const DeferredSigterm inner;
          std::raise(SIGTERM);
        }
        say("guarded");
        outer.reset();
        say("beyond");
        std::_Exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "^guarded$");
}

TEST(DeferredSigterm, EndsItFromAThreadThatBlocksTheSignal) {
  EXPECT_EXIT(
      {
        auto guard = std::make_unique<DeferredSigterm>();
        std::raise(SIGTERM);
        std::thread([&] {
          sigset_t all;
          ::sigfillset(&all);
          ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
          guard.reset();
        }).join();
        ::sleep(30);
        std::_Exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(DeferredSigterm, WithoutASignalLeavesTheDefaultBehind) {
  EXPECT_EXIT(
      {
        {
          const DeferredSigterm guard;
        }
        say("over");
        std::raise(SIGTERM);
        std::_Exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "over");
}

TEST(DeferredSigterm, LeavesTheProgramsOwnHandlerAlone) {
  EXPECT_EXIT(
      {
        std::signal(SIGTERM, [](int) { std::_Exit(7); });
        const DeferredSigterm guard;
        std::raise(SIGTERM);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(DeferredSigterm, LeavesAHandlerThatWasSetMeanwhile) {
  EXPECT_EXIT(
      {
        {
          const DeferredSigterm guard;
          std::signal(SIGTERM, [](int) { std::_Exit(7); });
        }
        std::raise(SIGTERM);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(DeferredSigterm, DoesNotHoldAForkedChild) {
  EXPECT_EXIT(
      {
        const DeferredSigterm guard;
        const pid_t child = ::fork();
        if (child == 0) {
          std::raise(SIGTERM);
          std::_Exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        std::_Exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
      },
      ::testing::ExitedWithCode(SIGTERM), "");
}

}  // namespace
}  // namespace accelerate
