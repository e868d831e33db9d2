// Fixtures that run a group: ranks as threads of this process, or as processes of this binary.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::testing {

/// The hierarchy has two hosts, on which ranks take turns, with shared memory inside.
enum class Engine { gloo, shared_memory, hierarchy };

/// "gloo", …
[[nodiscard]] std::string_view to_string(Engine engine);

/// What the ranks of run_ranks talk through when a test does not say: Gloo, or what
/// ACCELERATE_TEST_COMM names.
[[nodiscard]] Engine usual_engine();

struct RanksOptions {
  std::chrono::milliseconds timeout{20'000};  ///< Of every collective.
  Engine engine = usual_engine();
};

/// Runs `body` on `n` threads, each with a communicator (Gloo's over loopback) and an identity of
/// its own. The first exception of a rank is rethrown here (with the rank in its context) once all
/// have ended; EXPECT_ and ASSERT_ work inside. No default random generator: LibTorch shares it
/// between threads.
void run_ranks(int n, const std::function<void(Communicator&)>& body,
               const RanksOptions& options = {});

/// As run_ranks, but hands out the shared_ptr.
void run_ranks_shared(int n, const std::function<void(std::shared_ptr<Communicator>)>& body,
                      const RanksOptions& options = {});

struct ProcessesOptions {
  std::chrono::milliseconds time_limit{60'000};  ///< All processes are killed after it.
  std::map<std::string, std::string> env;        ///< Added to each rank's environment.
  /// What differs from rank to rank: words before the program's, and more of the environment.
  std::function<std::vector<std::string>(int rank, std::map<std::string, std::string>& env)> place =
      {};
};

struct ProcessResult {
  int rank = 0;
  int exit_code = -1;  ///< 128 + signal when killed by one.
  bool timed_out = false;
  std::string out, err;
};

/// Re-executes this test binary `n` times with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, … set,
/// so that each runs the body registered by RANK_MAIN(name), and returns how each ended.
std::vector<ProcessResult> run_processes(int n, const std::string& name,
                                         const ProcessesOptions& options = {});

/// Registers the body of a rank for run_processes: its return value is the exit code.
struct RegisterRankMain {
  RegisterRankMain(std::string name, std::function<int()> body);
};
#define RANK_MAIN(name)                                                                          \
  static int rank_main_##name();                                                                 \
  static const ::accelerate::testing::RegisterRankMain register_##name(#name, rank_main_##name); \
  static int rank_main_##name()

/// Used by main(): runs the body named by the environment; returns -1 when there is none.
int run_rank_main_if_asked();

/// A TCP port of 127.0.0.1 that was free a moment ago.
int free_port();

}  // namespace accelerate::testing
