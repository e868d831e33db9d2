#include "accelerate/base/machine/cpu_affinity.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

using Cores = std::vector<Core>;

constexpr std::int64_t kMostThreads = 65536;

CoreShare share_of(Cores::const_iterator first, Cores::const_iterator last, bool several_nodes) {
  CoreShare share;
  share.cores = static_cast<int>(last - first);
  const int node = first->node;
  const bool one_node = std::all_of(first, last, [&](const Core& c) { return c.node == node; });
  if (several_nodes && one_node) share.node = node;
  for (; first != last; ++first) {
    share.cpus.insert(share.cpus.end(), first->cpus.begin(), first->cpus.end());
  }
  std::ranges::sort(share.cpus);
  return share;
}

// Divides `cores` into shares that differ by at most one core; the first shares are the larger
// ones.
void divide_evenly(const Cores& cores, int ranks, bool several_nodes,
                   std::vector<CoreShare>& shares) {
  const int each = static_cast<int>(cores.size()) / ranks;
  const int richer = static_cast<int>(cores.size()) % ranks;
  auto first = cores.begin();
  for (int rank = 0; rank < ranks; ++rank) {
    const auto last = first + each + (rank < richer ? 1 : 0);
    shares.push_back(share_of(first, last, several_nodes));
    first = last;
  }
}

std::map<int, Cores> by_node(const Cores& cores) {
  std::map<int, Cores> nodes;
  for (const auto& core : cores) nodes[core.node].push_back(core);
  return nodes;
}

// Returns the number of ranks for each node. Each rank in turn goes to the node where it gets most
// cores, the lowest such node. While there are cores for all, no node gets more ranks than cores.
std::map<int, int> ranks_by_node(const std::map<int, Cores>& nodes, int ranks) {
  std::map<int, int> given;
  for (const auto& [node, cores] : nodes) given[node] = 0;
  const auto cores_each = [&](const auto& node) {
    return static_cast<double>(node.second.size()) / (given[node.first] + 1);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    ++given[std::ranges::max_element(nodes, {}, cores_each)->first];
  }
  return given;
}

// Returns the thread numbers below /proc/self/task.
std::vector<pid_t> threads_of_this_process() {
  std::vector<pid_t> threads;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    if (const auto id = parse_int(entry.path().filename().string())) {
      threads.push_back(static_cast<pid_t>(*id));
    }
  }
  return threads;
}

// Returns zeros where the kernel does not answer. The mask is long enough for any kernel.
std::array<unsigned long, 1024> mask_of(pid_t thread) {
  std::array<unsigned long, 1024> mask{};
  sched_getaffinity(thread, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data()));
  return mask;
}

}  // namespace

std::vector<CoreShare> divide_cores(const Cores& cores, int ranks) {
  std::vector<CoreShare> shares;
  if (ranks < 1 || static_cast<std::size_t>(ranks) > cores.size()) return shares;
  const auto nodes = by_node(cores);
  const bool several = nodes.size() > 1;
  if (static_cast<std::size_t>(ranks) < nodes.size()) {
    divide_evenly(cores, ranks, several, shares);
    return shares;
  }
  const auto given = ranks_by_node(nodes, ranks);
  for (const auto& [node, own] : nodes) {
    if (given.at(node) > 0) divide_evenly(own, given.at(node), several, shares);
  }
  return shares;
}

int fewest_cores(const std::vector<CoreShare>& shares) {
  if (shares.empty()) return 0;
  return std::ranges::min_element(shares, {}, &CoreShare::cores)->cores;
}

std::string to_string(const CoreShare& share) {
  std::string text = (share.cpus.size() == 1 ? "CPU " : "CPUs ") + cpu_list_text(share.cpus) +
                     " (" + std::to_string(share.cores) + (share.cores == 1 ? " core" : " cores");
  if (share.node) text += ", memory of node " + std::to_string(*share.node);
  return text + ")";
}

bool environment_names_cores() {
  if (env("GOMP_CPU_AFFINITY")) return true;
  const std::string places = env("OMP_PLACES").value_or("");
  if (places.find('{') != std::string::npos) return true;
  return lower(env("KMP_AFFINITY").value_or("")).find("proclist") != std::string::npos;
}

std::optional<int> openmp_threads() {
  const auto text = env("OMP_NUM_THREADS");
  if (!text) return std::nullopt;
  std::optional<int> outermost;
  for (const auto& level : split(*text, ',')) {
    const auto threads = parse_int(trim(level));
    if (!threads || *threads < 0 || *threads > kMostThreads) {
      throw ConfigError("the environment variable OMP_NUM_THREADS is '" + *text +
                        "'; allowed is a number of threads, or one for each level of nested "
                        "regions, such as 4,2");
    }
    if (!outermost) outermost = static_cast<int>(*threads);
  }
  return outermost;
}

CpuBinding::CpuBinding(const CoreShare& share) {
  constexpr auto bits = static_cast<int>(8 * sizeof(unsigned long));
  for (const int cpu : share.cpus) {
    const auto word = static_cast<std::size_t>(cpu / bits);
    if (cpus_.size() <= word) cpus_.resize(word + 1);
    cpus_[word] |= 1UL << (cpu % bits);
  }
  const auto node = static_cast<std::size_t>(share.node.value_or(0));
  has_node_ = share.node.has_value() && node < kNodes;
  if (has_node_) nodes_[node / kNodesPerWord] |= 1UL << (node % kNodesPerWord);
}

bool CpuBinding::apply(pid_t thread) const noexcept {
  return sched_setaffinity(thread, cpus_.size() * sizeof(unsigned long),
                           reinterpret_cast<const cpu_set_t*>(cpus_.data())) == 0;
}

void CpuBinding::prefer_memory() const noexcept {
  int policy = MPOL_DEFAULT;
  if (!has_node_ || syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0) return;
  // The kernel reads one bit fewer than it is told.
  if (policy == MPOL_DEFAULT) {
    syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes_.data(), kNodes + 1);
  }
}

bool bind_process(const CoreShare& share) {
  const CpuBinding binding(share);
  const auto before = mask_of(0);
  const bool done = binding.apply();
  for (const pid_t thread : threads_of_this_process()) {
    if (done && mask_of(thread) == before) binding.apply(thread);
  }
  if (done) binding.prefer_memory();
  return done;
}

}  // namespace accelerate
