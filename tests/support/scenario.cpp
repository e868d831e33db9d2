#include "tests/support/scenario.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/comm/rendezvous.h"
#include "tests/support/ranks.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): "20s" reads well
using Clock = std::chrono::steady_clock;

constexpr const char* kArgument = "ACCELERATE_TEST_ARGUMENT";

bool eventually(std::chrono::milliseconds limit, const std::function<bool()>& done) {
  const auto end = Clock::now() + limit;
  while (!done()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// A stage that forked processes share, and gone with the last of them.
std::shared_ptr<Stage> shared_stage() {
  void* memory =
      mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for a stage");
  return {new (memory) Stage(), [](Stage* stage) { munmap(stage, sizeof(Stage)); }};
}

int perform(const Scenario& scenario, const RendezvousOptions& place, Stage& stage,
            std::string& text) {
  const auto ends = [&text](int status, const std::exception& error) {
    text = describe(error);
    return status;
  };
  try {
    at::set_num_threads(1);
    scenario.body(scenario.meet ? scenario.meet(place) : rendezvous(place), stage);
    return kFine;
  } catch (const CommError& error) {
    return ends(kCommError, error);
  } catch (const UsageError& error) {
    return ends(kUsageError, error);
  } catch (const std::exception& error) {
    return ends(kOtherError, error);
  }
}

[[noreturn]] void be_rank(const Scenario& scenario, const RendezvousOptions& place, Stage& stage,
                          int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string text;
  const int status = perform(scenario, place, stage, text);
  if (write(report, text.data(), text.size()) < 0) _exit(kOtherError);
  stage.ended[static_cast<std::size_t>(place.rank)] = true;
  _exit(status);
}

std::string text_in(int file) {
  std::string text(8192, '\0');
  const ssize_t length = pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return text;
}

int status_of(pid_t pid, Clock::time_point limit) {
  int status = 0;
  const auto over = [&] { return waitpid(pid, &status, WNOHANG) == pid; };
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
  if (!eventually(std::max(left, 1ms), over)) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return kHung;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void add_names_of_ours(std::vector<std::string>& names) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find("accelerate") != std::string::npos) names.push_back(entry.path().string());
  }
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const auto name = line.find("@accelerate/");
    if (name != std::string::npos) names.push_back(line.substr(name));
  }
}

bool contains(std::string text, std::string part) {
  const auto lower = [](std::string& any) {
    std::transform(any.begin(), any.end(), any.begin(),
                   [](unsigned char c) { return std::tolower(c); });
  };
  lower(text);
  lower(part);
  return text.find(part) != std::string::npos;
}

}  // namespace

void Stage::wait_for_release() const {
  while (!released) std::this_thread::sleep_for(1ms);
}

bool Stage::wait_for_step(int rank, int step) const {
  return eventually(60s, [&] { return steps[static_cast<std::size_t>(rank)] >= step; });
}

bool Stage::wait_for_end_of_all_but(int rank, int ranks) const {
  return eventually(60s, [&] {
    for (int other = 0; other < ranks; ++other) {
      if (other != rank && !ended[static_cast<std::size_t>(other)]) return false;
    }
    return true;
  });
}

std::vector<Ended> play(const Scenario& scenario) {
  const auto stage = shared_stage();
  RendezvousOptions place;
  place.world_size = scenario.ranks;
  place.local_world_size = scenario.ranks;
  place.master_port = free_port();
  place.timeout = scenario.timeout;
  std::vector<pid_t> pids;
  std::vector<int> reports;
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    place.rank = place.local_rank = rank;
    reports.push_back(memfd_create("report", MFD_CLOEXEC));
    pids.push_back(fork());
    if (pids.back() == 0) be_rank(scenario, place, *stage, reports.back());
  }
  if (scenario.outside) scenario.outside(*stage, pids);
  std::vector<Ended> ended;
  const auto limit = Clock::now() + 30s;
  for (std::size_t rank = 0; rank < pids.size(); ++rank) {
    const int status = status_of(pids[rank], limit);
    ended.push_back({status, pids[rank], text_in(reports[rank])});
    close(reports[rank]);
  }
  return ended;
}

// Others may be meeting just now: what they make goes away.
std::vector<std::string> leftovers() {
  std::vector<std::string> left;
  add_names_of_ours(left);
  eventually(60s, [&left] {
    std::vector<std::string> now;
    add_names_of_ours(now);
    std::erase_if(left, [&now](const auto& name) {
      return std::find(now.begin(), now.end(), name) == now.end();
    });
    return left.empty();
  });
  return left;
}

void Findings::expect(bool holds, const std::string& what) {
  if (holds) return;
  ++found_;
  std::cout << what << std::endl;
}

void Findings::expect_ended(const Ended& ended, int status, const std::vector<std::string>& parts,
                            const std::string& where) {
  expect(ended.status == status, where + ": process " + std::to_string(ended.pid) + " ended with " +
                                     std::to_string(ended.status) + ", not " +
                                     std::to_string(status) + ": " + ended.text);
  for (const auto& part : parts) {
    expect(contains(ended.text, part), where + ": no '" + part + "' in what process " +
                                           std::to_string(ended.pid) + " says: " + ended.text);
  }
}

void Findings::expect_nothing_left() {
  for (const auto& name : leftovers()) expect(false, "left behind: " + name);
}

void expect_no_findings(const std::string& name, const std::string& argument,
                        std::chrono::milliseconds limit) {
  ProcessesOptions options;
  options.time_limit = limit;
  options.env = {
      {kArgument, argument}, {"ACCELERATE_LOG_LEVEL", "error"}, {"TORCH_CPP_LOG_LEVEL", "ERROR"}};
  const auto result = run_processes(1, name, options).front();
  EXPECT_EQ(result.exit_code, 0) << result.out;  // What c10d has to say in between is left out.
  EXPECT_FALSE(result.timed_out);
}

unsigned number_in(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::stoul(text));
}

std::string argument() {
  const char* text = std::getenv(kArgument);
  return text == nullptr ? "" : text;
}

}  // namespace accelerate::testing
