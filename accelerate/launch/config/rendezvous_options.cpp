#include "accelerate/launch/config/rendezvous_options.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

using Names = std::vector<const char*>;

// The variables by which launchers say who a rank is: torchrun's, which are ours, then those of
// MPI.
const Names kRank = {"RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"};
const Names kWorldSize = {"WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"};
const Names kLocalRank = {"LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK",
                          "MV2_COMM_WORLD_LOCAL_RANK"};
const Names kLocalWorldSize = {"LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE",
                               "MV2_COMM_WORLD_LOCAL_SIZE"};

int int_in_range(const Names& names, int fallback, int low, int high) {
  const auto value = env_int_first(names);
  if (!value) return fallback;
  if (*value < low || *value > high) {
    const auto set =
        std::ranges::find_if(names, [](const char* name) { return env(name).has_value(); });
    throw ConfigError("the environment variable " + std::string(*set) + " is " +
                          std::to_string(*value) + "; allowed are " + std::to_string(low) + " to " +
                          std::to_string(high),
                      error_name::kLauncherVariables);
  }
  return static_cast<int>(*value);
}

// Whether srun started this process without PMI, and no other launcher stands between. The variable
// is set for what srun starts, and for that alone: a batch script has SLURM_NTASKS without being
// one of several tasks.
bool is_task_of_srun() {
  return env("SLURM_STEP_NUM_TASKS") && !env_first(kWorldSize);
}

Names or_slurms(const Names& names, const char* of_slurm) {
  return is_task_of_srun() ? Names{of_slurm} : names;
}

int local_world_size(int world_size) {
  int usual = world_size;
  if (is_task_of_srun()) {
    const auto tasks = env("SLURM_STEP_TASKS_PER_NODE");
    const auto node = env_int("SLURM_NODEID");
    if (tasks && node) usual = detail::tasks_of_node(*tasks, *node).value_or(usual);
  }
  return int_in_range(kLocalWorldSize, std::min(usual, world_size), 1, world_size);
}

void check_one_machine_or_address(const RendezvousOptions& options) {
  if (options.world_size > options.local_world_size && !env("MASTER_ADDR")) {
    throw ConfigError(
        "the job has " + std::to_string(options.world_size) + " ranks, and this machine runs " +
            std::to_string(options.local_world_size) +
            " of them, so several machines take part, but MASTER_ADDR is not set. Set it to the "
            "address of the machine that runs rank 0 (accelerate launch: --main_process_ip).",
        error_name::kLauncherVariables);
  }
}

// The value stays out of the message, because others may read the logs.
ChecksumKey job_token_from_env() {
  const auto digits = env("ACCELERATE_JOB_TOKEN");
  if (!digits) return {};
  if (const auto key = key_from_digits(*digits)) return *key;
  throw ConfigError("ACCELERATE_JOB_TOKEN has " + std::to_string(digits->size()) +
                    " characters; it must be 32 hexadecimal digits, random and the same on all "
                    "ranks, as `openssl rand -hex 16` makes them. `accelerate launch` sets it.");
}

}  // namespace

std::optional<int> detail::tasks_of_node(const std::string& text, std::int64_t node) {
  for (const std::string& part : split(text, ',')) {
    const auto times = part.find("(x");
    const auto tasks = parse_int(part.substr(0, times));
    const bool repeats = times != std::string::npos && part.ends_with(')');
    const std::optional<std::int64_t> nodes =
        repeats ? parse_int(part.substr(times + 2, part.size() - times - 3)) : 1;
    if (!tasks || *tasks < 1 || *tasks > std::numeric_limits<int>::max() || !nodes || *nodes < 1) {
      return std::nullopt;
    }
    if (node < *nodes) return static_cast<int>(*tasks);
    node -= *nodes;
  }
  return std::nullopt;
}

RendezvousOptions rendezvous_options_from_env() {
  constexpr int kMost = std::numeric_limits<int>::max();
  RendezvousOptions options;
  options.world_size = int_in_range(or_slurms(kWorldSize, "SLURM_STEP_NUM_TASKS"), 1, 1, kMost);
  const Names rank = or_slurms(kRank, "SLURM_PROCID");
  if (options.world_size > 1 && !env_first(rank)) {
    throw ConfigError("WORLD_SIZE is " + std::to_string(options.world_size) +
                          ", but RANK is not set: a launcher sets both. Start the program with "
                          "`accelerate launch`.",
                      error_name::kLauncherVariables);
  }
  options.rank = int_in_range(rank, 0, 0, options.world_size - 1);
  options.local_world_size = local_world_size(options.world_size);
  options.local_rank =
      int_in_range(or_slurms(kLocalRank, "SLURM_LOCALID"), options.rank % options.local_world_size,
                   0, options.local_world_size - 1);
  options.master_addr = env("MASTER_ADDR").value_or(options.master_addr);
  options.master_port = int_in_range({"MASTER_PORT"}, options.master_port, 1, 65535);
  options.store_is_hosted_by_launcher = env_flag("TORCHELASTIC_USE_AGENT_STORE", false);
  options.restart_count = int_in_range({"TORCHELASTIC_RESTART_COUNT"}, 0, 0, kMost);
  options.job_token = job_token_from_env();
  options.timeout = std::chrono::seconds(int_in_range({"ACCELERATE_TIMEOUT"}, 1800, 1, 1'000'000));
  check_one_machine_or_address(options);
  return options;
}

}  // namespace accelerate
