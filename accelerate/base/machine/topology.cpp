#include "accelerate/base/machine/topology.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "accelerate/base/text.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Far above any machine; limits the memory that a false file can cost.
constexpr std::int64_t kHighestCpu = 65535;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns 12 for the prefix "cpu" and the name "cpu12"; nullopt for "cpufreq".
std::optional<int> number_after(std::string_view prefix, const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto number = parse_int(std::string_view(name).substr(prefix.size()));
  if (!number || *number < 0 || *number > kHighestCpu) return std::nullopt;
  return static_cast<int>(*number);
}

std::vector<std::pair<int, fs::path>> numbered_folders(const fs::path& parent,
                                                       std::string_view prefix) {
  std::vector<std::pair<int, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (const auto number = number_after(prefix, entry.path().filename())) {
      found.emplace_back(*number, entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

std::map<int, int> node_of_cpu(const fs::path& sys) {
  std::map<int, int> nodes;
  for (const auto& [node, folder] : numbered_folders(sys / "devices/system/node", "node")) {
    for (const int cpu : read_cpu_list(folder / "cpulist")) nodes[cpu] = node;
  }
  return nodes;
}

// Returns, for each CPU that is online, the hyper-threads of its core, itself among them. An
// offline CPU keeps its folder, without a topology.
std::map<int, CpuList> siblings_of_cpu(const fs::path& sys) {
  std::map<int, CpuList> siblings;
  for (const auto& [cpu, folder] : numbered_folders(sys / "devices/system/cpu", "cpu")) {
    auto list = read_cpu_list(folder / "topology/core_cpus_list");
    if (list.empty()) list = read_cpu_list(folder / "topology/thread_siblings_list");
    if (!list.empty()) siblings[cpu] = std::move(list);
  }
  return siblings;
}

bool contains(const CpuList& cpus, int cpu) {
  return std::ranges::binary_search(cpus, cpu);
}

std::optional<std::int64_t> number_in(const std::string& word) {
  const auto number = parse_int(word);
  return number && *number > 0 ? number : std::nullopt;
}

struct CpuSetDeleter {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

}  // namespace

CpuList parse_cpu_list(std::string_view text) {
  CpuList cpus;
  for (const auto& part : split(trim(text), ',')) {
    const auto ends = split(part, '-');
    const auto first = parse_int(ends.front());
    const auto last = parse_int(ends.back());
    if (ends.size() > 2 || !first || !last || *first < 0 || *last > kHighestCpu) return {};
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  std::ranges::sort(cpus);
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

CpuList read_cpu_list(const fs::path& path) {
  return parse_cpu_list(first_line(path));
}

std::string cpu_list_text(const CpuList& cpus) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    const std::string first = std::to_string(cpus[i]);
    parts.push_back(last == i ? first : first + "-" + std::to_string(cpus[last]));
    i = last + 1;
  }
  return join(parts, ",");
}

std::optional<CpuList> allowed_cpus() {
  // The kernel answers EINVAL to a mask shorter than its own.
  for (int count = CPU_SETSIZE; count <= kHighestCpu + 1; count *= 2) {
    const std::unique_ptr<cpu_set_t, CpuSetDeleter> set(CPU_ALLOC(count));
    const std::size_t bytes = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      return std::nullopt;
    }
    CpuList cpus;
    for (int cpu = 0; cpu < count; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return std::nullopt;
}

std::vector<Core> cpu_cores(const HardwareRoots& roots, const std::optional<CpuList>& allowed) {
  auto siblings = siblings_of_cpu(roots.sys);
  if (siblings.empty() && allowed) {
    for (const int cpu : *allowed) siblings[cpu] = {cpu};
  }
  const auto nodes = node_of_cpu(roots.sys);
  std::map<CpuList, Core> cores;  // keyed by all hyper-threads, even if they may not be used
  for (const auto& [cpu, list] : siblings) {
    if (allowed && !contains(*allowed, cpu)) continue;
    const auto node = nodes.find(cpu);
    Core& core = cores[list];
    core.cpus.push_back(cpu);
    core.node = node == nodes.end() ? 0 : node->second;
  }
  std::vector<Core> ordered;
  for (auto& [list, core] : cores) ordered.push_back(std::move(core));
  std::ranges::sort(ordered, {},
                    [](const Core& core) { return std::pair(core.node, core.cpus.front()); });
  return ordered;
}

std::optional<int> cpu_quota(const HardwareRoots& roots) {
  const fs::path group = roots.sys / "fs/cgroup";
  std::istringstream line(first_line(group / "cpu.max"));
  std::string quota;
  std::string period;
  line >> quota >> period;
  if (quota.empty()) {  // version 1 of control groups has a file for each
    quota = first_line(group / "cpu/cpu.cfs_quota_us");
    period = first_line(group / "cpu/cpu.cfs_period_us");
  }
  const auto numerator = number_in(quota);
  const auto denominator = number_in(period);
  if (!numerator || !denominator) return std::nullopt;
  return static_cast<int>(std::min((*numerator - 1) / *denominator + 1, kHighestCpu));
}

int physical_cores(const HardwareRoots& roots) {
  // Another root stands for another machine, to which our affinity mask does not apply.
  const bool own = roots.sys == HardwareRoots{}.sys;
  auto cores = static_cast<int>(cpu_cores(roots, own ? allowed_cpus() : std::nullopt).size());
  if (cores == 0) cores = static_cast<int>(std::thread::hardware_concurrency());
  if (const auto quota = cpu_quota(roots)) cores = std::min(cores, *quota);
  return std::max(cores, 1);
}

}  // namespace accelerate
