#include "accelerate/base/stop_signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <vector>

namespace accelerate {
namespace {

// Runs `body` in a copy of this process. Returns its exit code, or 128 + the signal that ended it.
int run_in_a_copy(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Sends `signal` from a child of this process, so that another process than the parent sends it.
void send_from_elsewhere(int signal) {
  const pid_t here = getpid();
  (void)run_in_a_copy([&] { return kill(here, signal); });
}

// Has the parent of this process send `signal`: this process becomes the parent of a copy.
int with_a_signal_of_the_parent(int signal, const std::function<int()>& then) {
  const pid_t child = fork();
  if (child == 0) {
    const StopSignals signals;
    kill(getpid(), SIGSTOP);
    _exit(then());
  }
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  kill(child, signal);
  kill(child, SIGCONT);
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(StopSignals, RememberTheFirstAndLiveOn) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    EXPECT_EQ(run_in_a_copy([&] {
                const StopSignals signals;
                if (StopSignals::received() != 0) return 1;
                raise(signal);
                raise(SIGTERM);
                raise(SIGUSR1);
                return StopSignals::received() == signal ? 0 : 2;
              }),
              0)
        << signal;
  }
}

TEST(StopSignals, EndWithTheLastObjectOfSeveral) {
  EXPECT_EQ(run_in_a_copy([] {
              const StopSignals outer;
              raise(SIGTERM);
              {
                const StopSignals inner;
              }
              return StopSignals::received() == SIGTERM && StopSignals::catches(SIGTERM) ? 0 : 1;
            }),
            0);
  EXPECT_EQ(run_in_a_copy([] {
              {
                const StopSignals signals;
              }
              raise(SIGUSR1);
              return 0;
            }),
            128 + SIGUSR1);
}

TEST(StopSignals, ForgetAnEarlierSignal) {
  EXPECT_EQ(run_in_a_copy([] {
              {
                const StopSignals signals;
                raise(SIGTERM);
              }
              const StopSignals again;
              return StopSignals::received();
            }),
            0);
}

TEST(StopSignals, ASecondCtrlCEndsTheProcess) {
  EXPECT_EQ(run_in_a_copy([] {
              const StopSignals signals;
              raise(SIGINT);
              raise(SIGINT);
              return 0;
            }),
            128 + SIGINT);
  EXPECT_EQ(run_in_a_copy([] {
              const StopSignals signals;
              raise(SIGTERM);
              raise(SIGINT);
              return 0;
            }),
            128 + SIGINT);
}

// A scheduler tells launcher and ranks alike, and the launcher passes the signal on.
TEST(StopSignals, ACtrlCThatTheParentPassesOnIsNoSecondOne) {
  EXPECT_EQ(with_a_signal_of_the_parent(SIGINT,
                                        [] {
                                          send_from_elsewhere(SIGINT);
                                          return StopSignals::received() == SIGINT ? 0 : 1;
                                        }),
            0);
}

TEST(StopSignals, LeaveAloneWhatTheProgramHandlesOrIgnores) {
  EXPECT_EQ(run_in_a_copy([] {
              signal(SIGTERM, SIG_IGN);
              {
                const StopSignals signals;
                raise(SIGTERM);
                if (StopSignals::catches(SIGTERM) || !StopSignals::catches(SIGUSR1)) return 1;
                if (StopSignals::received() != 0) return 2;
              }
              raise(SIGTERM);
              return 0;
            }),
            0);
}

TEST(StopSignals, DoNotKeepAForkedChildAlive) {
  EXPECT_EQ(run_in_a_copy([] {
              const StopSignals signals;
              const int end = run_in_a_copy([] {
                raise(SIGTERM);
                return 0;
              });
              return end == 128 + SIGTERM && StopSignals::received() == 0 ? 0 : 1;
            }),
            0);
}

// What ranks add up, and the signal that all of them get from the sum.
TEST(StopSignals, AreAgreedOnByASum) {
  struct Sum {
    std::vector<int> signals;
    int agreed;
  };
  const std::vector<Sum> rows{
      {{0, 0, 0}, 0},
      {{0, SIGUSR1, 0}, SIGUSR1},
      {{SIGUSR1, SIGUSR1, SIGUSR1}, SIGUSR1},
      {{SIGUSR1, SIGTERM, SIGUSR1}, SIGTERM},
      {{SIGTERM, SIGTERM, SIGTERM}, SIGTERM},
      {{SIGTERM, SIGINT, SIGUSR1}, SIGINT},
  };
  for (const auto& [signals, agreed] : rows) {
    double sum = 0;
    for (const int signal : signals) sum += detail::weight_of_signal(signal, 3);
    EXPECT_EQ(detail::signal_of_weights(sum, 3), agreed) << sum;
  }
  // Exact with more ranks than there are.
  const int many = 100'000;
  EXPECT_EQ(detail::signal_of_weights(many * detail::weight_of_signal(SIGTERM, many), many),
            SIGTERM);
}

}  // namespace
}  // namespace accelerate
