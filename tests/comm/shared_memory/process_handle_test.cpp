#include "accelerate/comm/shared_memory/process_handle.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace accelerate::detail {
namespace {

// A process that does nothing until it is killed.
class Idler {
 public:
  Idler() : pid_(fork()) {
    if (pid_ != 0) return;
    for (;;) pause();
  }
  ~Idler() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Idler(const Idler&) = delete;
  Idler& operator=(const Idler&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Returns when the signal has had its effect; nobody is waited for, so that the dead are
  /// zombies.
  void send(int signal, int awaited) const {
    kill(pid_, signal);
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid_), &info, awaited | WNOWAIT);
  }

 private:
  pid_t pid_;
};

// With a descriptor for the process, and with its number only.
class ProcessHandleTest : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] ProcessHandle handle() const {
    Descriptor pidfd;
    if (GetParam()) pidfd = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, idler_.pid(), 0)));
    return {std::move(pidfd), GetParam() ? 0 : idler_.pid()};
  }
  void SetUp() override {
    if (GetParam() && handle().pidfd() < 0) GTEST_SKIP() << "this kernel has no pidfd_open";
  }

  Idler idler_;
  std::string name_ = "process " + std::to_string(idler_.pid());
};

INSTANTIATE_TEST_SUITE_P(Processes, ProcessHandleTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "ByDescriptor" : "ByNumber"; });

TEST_P(ProcessHandleTest, KnowsALivingProcess) {
  EXPECT_TRUE(handle().is_alive());
  EXPECT_EQ(handle().pid(), idler_.pid());
  EXPECT_EQ(handle().describe(), name_);
}

TEST_P(ProcessHandleTest, SeesAProcessDieBeforeItsParentDoes) {
  const auto process = handle();
  idler_.send(SIGKILL, WEXITED);
  EXPECT_FALSE(process.is_alive());
  EXPECT_EQ(process.describe(), name_ + ", which has died");
}

TEST_P(ProcessHandleTest, AStoppedProcessIsAliveAndSaidToBeStopped) {
  const auto process = handle();
  idler_.send(SIGSTOP, WSTOPPED);
  EXPECT_TRUE(process.is_alive());
  EXPECT_EQ(process.describe(), name_ + ", which is stopped");
  idler_.send(SIGCONT, WCONTINUED);
  EXPECT_EQ(process.describe(), name_);
}

TEST(ProcessHandle, OfThisProcessIsAlive) {
  const auto self = ProcessHandle::self();
  EXPECT_TRUE(self.is_alive());
  EXPECT_EQ(self.pid(), getpid());
}

TEST(ProcessHandle, ProcessesOfOneNamespaceAgreeOnIt) {
  EXPECT_NE(process_namespace(), 0U);
  EXPECT_EQ(process_namespace(), process_namespace());
}

}  // namespace
}  // namespace accelerate::detail
