// How ranks find each other, as plain data and from the environment that a launcher sets.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/base/keyed_checksum.h"

namespace accelerate {

struct RendezvousOptions {
  int rank = 0;                           ///< RANK, or the variable of an MPI launcher.
  int world_size = 1;                     ///< WORLD_SIZE.
  int local_rank = 0;                     ///< LOCAL_RANK.
  int local_world_size = 1;               ///< LOCAL_WORLD_SIZE.
  std::string master_addr = "127.0.0.1";  ///< MASTER_ADDR: where rank 0's store listens.
  int master_port = 29500;                ///< MASTER_PORT.
  /// TORCHELASTIC_USE_AGENT_STORE: rank 0 only connects.
  bool store_is_hosted_by_launcher = false;
  int restart_count = 0;  ///< TORCHELASTIC_RESTART_COUNT: keeps attempts apart.
  /// ACCELERATE_JOB_TOKEN: a secret of the job's ranks. It is the key of the checksum that values
  /// in the store bear. Zeros if there is no token; then the checksum finds accidents only.
  ChecksumKey job_token{};
  /// Limit for the ranks to meet, and for each collective.
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
};

/// Returns the options that the environment describes, or the options of a single process if it
/// describes none. ACCELERATE_TIMEOUT (seconds) sets the timeout. Throws ConfigError, which names
/// the variable, for ranks out of range, several machines without MASTER_ADDR, and a bad port or
/// token. Fallbacks as upstream: PMI_*, OMPI_COMM_WORLD_*, MV2_COMM_WORLD_*, MPI_LOCAL*.
/// Beyond upstream: SLURM_PROCID and its kin, for tasks that srun starts without PMI.
[[nodiscard]] RendezvousOptions rendezvous_options_from_env();

namespace detail {

/// Returns the tasks of srun on node `node` by SLURM_STEP_TASKS_PER_NODE, e.g. "2(x3),1": two on each
/// of the first three nodes, one on the fourth. Returns nullopt for any other text.
[[nodiscard]] std::optional<int> tasks_of_node(const std::string& text, std::int64_t node);

}  // namespace detail
}  // namespace accelerate
