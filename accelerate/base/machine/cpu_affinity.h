// Gives each rank its own cores: decides which rank gets which, and tells the kernel.
// docs/decisions/cores_of_a_rank.md says why the launcher does this and how the cores are divided.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/machine/topology.h"

namespace accelerate {

/// The cores that one rank may run on.
struct CoreShare {
  CpuList cpus;   ///< Hyper-threads of one core are never divided among ranks.
  int cores = 0;  ///< Number of physical cores that `cpus` belong to.
  /// The NUMA node of the share, if it lies on one and all cores together on several.
  std::optional<int> node;

  bool operator==(const CoreShare&) const = default;
};

/// Divides `cores`, in their order, among the `ranks` of this machine. Shares are disjoint. With at
/// least as many ranks as nodes no rank straddles two nodes, and the smallest share is as large as
/// possible; cores that would not help may stay unused. With fewer ranks, shares differ by at most
/// one core.
///
/// Returns nothing when there are more ranks than cores, because binding would hurt. Two ranks
/// bound to one core wait for each other, while the scheduler could move them apart.
[[nodiscard]] std::vector<CoreShare> divide_cores(const std::vector<Core>& cores, int ranks);

/// The fewest cores of any share; 0 if there is no share. All ranks compute with this many threads,
/// because the rank with fewest cores sets the pace anyway. Besides, sums over another number of
/// threads round differently. Ranks that each compute the same number would then drift apart.
[[nodiscard]] int fewest_cores(const std::vector<CoreShare>& shares);

/// "CPUs 0-3 (2 cores, memory of node 0)".
[[nodiscard]] std::string to_string(const CoreShare& share);

/// Whether the environment names cores by number (GOMP_CPU_AFFINITY, OMP_PLACES, KMP_AFFINITY).
/// Then the user has decided, and our mask would take away cores that are named there.
/// OMP_PROC_BIND and OMP_PLACES=cores bind within the current mask, so they work with ours.
[[nodiscard]] bool environment_names_cores();

/// Returns the threads that OMP_NUM_THREADS asks for; nullopt if it is unset. The variable may hold
/// a number for each level of nested regions, such as 4,2: the outermost counts. Throws ConfigError
/// for anything else.
[[nodiscard]] std::optional<int> openmp_threads();

/// A share in the kernel's form. Applying it allocates nothing and takes no lock, so it may be done
/// between fork and exec.
class CpuBinding {
 public:
  explicit CpuBinding(const CoreShare& share);

  /// Lets `thread` (0: the calling one) run on the share alone. Returns false when the kernel
  /// refuses, e.g. because a core went offline. The thread then keeps its old mask.
  bool apply(pid_t thread = 0) const noexcept;

  /// Takes memory from the share's node, as long as that has some. This holds for memory that the
  /// calling thread, and what it starts, touches first. Does nothing without a node, where a policy
  /// was set before (numactl), and where a sandbox forbids it. Threads that stay on a node get its
  /// memory anyway.
  void prefer_memory() const noexcept;

 private:
  static constexpr std::size_t kNodes = 1024;
  static constexpr std::size_t kNodesPerWord = 8 * sizeof(unsigned long);

  std::vector<unsigned long> cpus_;
  std::array<unsigned long, kNodes / kNodesPerWord> nodes_{};
  bool has_node_ = false;
};

/// Binds the calling process: its calling thread, and every other thread that has the same mask. So
/// a thread that someone else bound stays where it is. Returns false when the kernel refuses.
bool bind_process(const CoreShare& share);

}  // namespace accelerate
