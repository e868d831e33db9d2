// Each rank on cores of its own: who gets which, and telling the kernel. docs/decisions/
// cores_of_a_rank.md says why the launcher does this and how the cores are divided.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/topology.h"

namespace accelerate {

/// What one rank may run on.
struct CoreShare {
  CpuList cpus;             ///< Hyper-threads of one core are never divided among ranks.
  int cores = 0;            ///< Physical cores that these are.
  std::optional<int> node;  ///< The NUMA node of all of them, where `cores` lie on several.

  bool operator==(const CoreShare&) const = default;
};

/// Divides `cores`, in their order, among the `ranks` of this machine: disjoint, together as much
/// of the machine as serves. With at least as many ranks as nodes no rank straddles two nodes, and
/// ranks go to nodes so that the poorest rank is as rich as can be; with fewer, ranks are equal to
/// one core. Empty when there are more ranks than cores: then binding would hurt, for two ranks
/// bound to one core wait for each other while the scheduler could move them apart.
[[nodiscard]] std::vector<CoreShare> divide_cores(const std::vector<Core>& cores, int ranks);

/// The fewest cores that any share has; 0 for none. All ranks compute with this many threads: the
/// poorest would set the pace anyway, and sums over another number of threads are rounded in
/// another way, which would let ranks drift apart that compute the same number each for itself.
[[nodiscard]] int fewest_cores(const std::vector<CoreShare>& shares);

/// "CPUs 0-3 (2 cores, memory of node 0)".
[[nodiscard]] std::string to_string(const CoreShare& share);

/// Whether the environment names cores by number (GOMP_CPU_AFFINITY, OMP_PLACES, KMP_AFFINITY):
/// then the user has decided, and a mask of ours would take cores away that are named there.
/// OMP_PROC_BIND and OMP_PLACES=cores bind within whatever mask there is and go well with ours.
[[nodiscard]] bool environment_names_cores();

/// A share in the kernel's form. Applying it allocates nothing and takes no lock, so that it may be
/// done between fork and exec.
class CpuBinding {
 public:
  explicit CpuBinding(const CoreShare& share);

  /// Lets `thread` (0: the calling one) run on the share alone. False when the kernel refuses, as
  /// when a core went offline meanwhile: then the thread runs where it did.
  bool apply(pid_t thread = 0) const noexcept;

  /// Makes memory that the calling thread, and what it starts, touches first come from the share's
  /// node as long as that has some. Does nothing without a node, where a policy was set before
  /// (numactl), and where a sandbox forbids it: threads that stay on a node get its memory anyway.
  void prefer_memory() const noexcept;

 private:
  static constexpr std::size_t kNodes = 1024;
  static constexpr std::size_t kNodesPerWord = 8 * sizeof(unsigned long);

  std::vector<unsigned long> cpus_;
  std::array<unsigned long, kNodes / kNodesPerWord> nodes_{};
  bool has_node_ = false;
};

/// Binds the calling process: its calling thread and all others that could run where that one
/// could, so that a thread bound by someone else stays. False when the kernel refuses.
bool bind_process(const CoreShare& share);

}  // namespace accelerate
