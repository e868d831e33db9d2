#include "accelerate/base/machine/hardware.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>

#include "accelerate/base/text.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// The file names of one version of control groups.
struct CgroupVersion {
  const char* folder;  // below sys/fs/cgroup
  const char* limit;
  const char* usage;
  std::array<const char*, 3> reclaimable;  // lines of memory.stat, or null
};
constexpr CgroupVersion kFirst{"memory",
                               "memory.limit_in_bytes",
                               "memory.usage_in_bytes",
                               {"total_inactive_file", "total_active_file", nullptr}};
constexpr CgroupVersion kSecond{
    "", "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};

// Returns the number after `name` in the first line of a file that begins with `name`.
std::optional<std::uint64_t> value_of(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::string_view rest = trim(std::string_view(line).substr(name.size()));
    if (const auto value = parse_int(rest.substr(0, rest.find(' ')))) {
      return static_cast<std::uint64_t>(*value);
    }
  }
  return std::nullopt;
}

// Returns the number that a file consists of; nullopt for "max".
std::optional<std::uint64_t> number_in_file(const fs::path& path) {
  return value_of(path, "");
}

std::uint64_t reclaimable_in(const fs::path& folder, const CgroupVersion& version) {
  std::uint64_t bytes = 0;
  for (const char* line : version.reclaimable) {
    if (line == nullptr) continue;
    bytes += value_of(folder / "memory.stat", std::string(line) + " ").value_or(0);
  }
  return bytes;
}

// Lowers `least` to what the limit of a group leaves. File caches count as free, because the kernel
// can reclaim them.
void consider_group(const fs::path& folder, const CgroupVersion& version, AvailableMemory& least) {
  const auto limit = number_in_file(folder / version.limit);
  const auto usage = number_in_file(folder / version.usage);
  if (!limit || !usage) return;
  const std::uint64_t cached = reclaimable_in(folder, version);
  const std::uint64_t used = *usage > cached ? *usage - cached : 0;
  const std::uint64_t left = *limit > used ? *limit - used : 0;
  if (left >= least.bytes) return;
  least = {left, "this container (memory limit " + format_bytes(static_cast<double>(*limit)) + ")"};
}

// Considers a line of /proc/self/cgroup: "4:memory:/a/b" (version 1) or "0::/a/b" (version 2). A
// limit may be set at any level. Inside a container the path may be the host's; then the root is
// the container's group.
void consider_groups(const std::string& line, const fs::path& sys, AvailableMemory& least) {
  const auto fields = split(line, ':');
  if (fields.size() < 3) return;
  const bool second = fields[1].empty();
  if (!second && fields[1] != "memory") return;
  const CgroupVersion& version = second ? kSecond : kFirst;
  const fs::path root = sys / "fs/cgroup" / version.folder;
  for (fs::path path = fs::path(fields[2]).relative_path(); !path.empty();
       path = path.parent_path()) {
    consider_group(root / path, version, least);
  }
  consider_group(root, version, least);
}

}  // namespace

std::uint64_t memory_bytes(const HardwareRoots& roots) {
  return value_of(roots.proc / "meminfo", "MemTotal:").value_or(0) * 1024;
}

AvailableMemory available_memory(const HardwareRoots& roots) {
  AvailableMemory least;
  if (const auto kib = value_of(roots.proc / "meminfo", "MemAvailable:")) {
    least = {*kib * 1024, "this machine"};
  }
  std::ifstream groups(roots.proc / "self/cgroup");
  for (std::string line; std::getline(groups, line);) consider_groups(line, roots.sys, least);
  return least;
}

Processor this_processor(const HardwareRoots& roots) {
  Processor found;
  std::ifstream file(roots.proc / "cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto name = trim(std::string_view(line).substr(0, colon));
    const auto value = trim(std::string_view(line).substr(colon + 1));
    if (name == "vendor_id") found.vendor = value;
    if (name == "cpu family") found.family = parse_int(value).value_or(0);
    if (name != "flags") continue;
    const auto has = [value](const char* part) { return value.find(part) != value.npos; };
    found.avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  }
  return found;
}

}  // namespace accelerate
