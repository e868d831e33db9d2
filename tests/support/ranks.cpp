#include "tests/support/ranks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <future>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "accelerate/base/error.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/shared_memory/peers.h"
#include "tests/support/hosts.h"
#include "tests/support/support.h"

namespace accelerate::testing {
namespace {

constexpr const char* kRankMainVariable = "ACCELERATE_TEST_RANK_MAIN";

std::map<std::string, std::function<int()>>& rank_mains() {
  static std::map<std::string, std::function<int()>> mains;
  return mains;
}

std::shared_ptr<Communicator> join_as(int rank, int n, const c10::intrusive_ptr<c10d::Store>& store,
                                      const RanksOptions& options) {
  if (n == 1) return single_communicator();
  if (options.engine == Engine::shared_memory) {
    const auto hosts = detail::meet_hosts(c10::make_intrusive<c10d::PrefixStore>("hosts", store),
                                          rank, n, options.timeout);
    if (!hosts.peers) throw std::runtime_error("memory cannot be shared: " + hosts.why_not);
    return make_shared_memory_communicator(store, rank, n, options.timeout, hosts.peers);
  }
  auto flat = make_gloo_communicator(store, rank, n, options.timeout);
  if (options.engine == Engine::gloo) return flat;
  std::vector<int> host_of;
  for (int other = 0; other < n; ++other) host_of.push_back(other % 2);
  return hierarchy_over(
      flat, host_of,
      {.timeout = options.timeout, .chunk_bytes = 1 << 20, .inside = Engine::shared_memory});
}

void run_one(int rank, int n, const c10::intrusive_ptr<c10d::Store>& store,
             const std::function<void(std::shared_ptr<Communicator>)>& body,
             const RanksOptions& options) {
  at::set_num_threads(1);
  auto communicator = join_as(rank, n, store, options);
  ScopedProcessIdentity identity(
      {rank, n, rank, n, true, [communicator] { communicator->barrier(); }});
  try {
    body(communicator);
  } catch (const std::exception& error) {
    communicator->abort(describe(error));
    throw;
  }
}

std::string executable() {
  std::string path(4096, '\0');
  const ssize_t n = readlink("/proc/self/exe", path.data(), path.size());
  if (n <= 0) throw std::runtime_error("cannot read /proc/self/exe");
  path.resize(static_cast<std::size_t>(n));
  return path;
}

}  // namespace

std::string_view to_string(Engine engine) {
  switch (engine) {
    case Engine::gloo:
      return "gloo";
    case Engine::shared_memory:
      return "shared_memory";
    case Engine::hierarchy:
      return "hierarchy";
  }
  return "unknown";
}

Engine usual_engine() {
  const char* wish = std::getenv("ACCELERATE_TEST_COMM");
  const std::string name = wish == nullptr ? "gloo" : wish;
  for (const Engine engine : {Engine::gloo, Engine::shared_memory, Engine::hierarchy}) {
    if (name == to_string(engine)) return engine;
  }
  throw std::runtime_error("ACCELERATE_TEST_COMM is '" + name +
                           "'; allowed are gloo, shared_memory and hierarchy");
}

void run_ranks_shared(int n, const std::function<void(std::shared_ptr<Communicator>)>& body,
                      const RanksOptions& options) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(options.timeout);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_one(rank, n, store, body, options);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void run_ranks(int n, const std::function<void(Communicator&)>& body, const RanksOptions& options) {
  run_ranks_shared(n, [&](const std::shared_ptr<Communicator>& comm) { body(*comm); }, options);
}

RegisterRankMain::RegisterRankMain(std::string name, std::function<int()> body) {
  rank_mains()[std::move(name)] = std::move(body);
}

int run_rank_main_if_asked() {
  const char* name = std::getenv(kRankMainVariable);
  if (name == nullptr) return -1;
  const auto found = rank_mains().find(name);
  if (found == rank_mains().end()) {
    std::cerr << "no RANK_MAIN(" << name << ") in this binary\n";
    return 125;
  }
  try {
    return found->second();
  } catch (const std::exception& error) {
    std::cerr << describe(error) << std::endl;
    return 1;
  }
}

std::vector<ProcessResult> run_processes(int n, const std::string& name,
                                         const ProcessesOptions& options) {
  const int port = free_port();
  std::vector<std::future<ProcessResult>> running;
  for (int rank = 0; rank < n; ++rank) {
    RunOptions run;
    run.timeout = options.time_limit;
    run.env = {{kRankMainVariable, name},
               {"RANK", std::to_string(rank)},
               {"LOCAL_RANK", std::to_string(rank)},
               {"WORLD_SIZE", std::to_string(n)},
               {"LOCAL_WORLD_SIZE", std::to_string(n)},
               {"MASTER_ADDR", "127.0.0.1"},
               {"MASTER_PORT", std::to_string(port)},
               {"OMP_NUM_THREADS", "1"}};
    for (const auto& [key, value] : options.env) run.env[key] = value;
    std::vector<std::string> argv;
    if (options.place) argv = options.place(rank, run.env);
    argv.push_back(executable());
    running.push_back(std::async(std::launch::async, [rank, run, argv] {
      RunResult result = run_program(argv, run);
      return ProcessResult{rank, result.exit_code, result.timed_out, result.out, result.err};
    }));
  }
  std::vector<ProcessResult> results;
  for (auto& process : running) results.push_back(process.get());
  return results;
}

// The socket stays until this process ends. It does not listen, so that a rank, whose own asks for
// the reuse of addresses too, can, while the system gives the port to nobody else.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("no free port");
  }
  return ntohs(address.sin_port);
}

}  // namespace accelerate::testing
