#include "accelerate/config/rendezvous.h"

#include <limits>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"

namespace accelerate {
namespace {

int int_in_range(const std::vector<const char*>& names, int fallback, int low, int high) {
  const auto value = env_int_first(names);
  if (!value) return fallback;
  if (*value < low || *value > high) {
    throw ConfigError("the environment variable " + std::string(names.front()) +
                      " (or one of its "
                      "MPI equivalents) is " +
                      std::to_string(*value) + "; allowed are " + std::to_string(low) + " to " +
                      std::to_string(high));
  }
  return static_cast<int>(*value);
}

void check_one_machine_or_address(const RendezvousOptions& options) {
  if (options.world_size > options.local_world_size && !env("MASTER_ADDR")) {
    throw ConfigError(
        "WORLD_SIZE is " + std::to_string(options.world_size) + " and LOCAL_WORLD_SIZE " +
        std::to_string(options.local_world_size) +
        ", so several machines take part, but "
        "MASTER_ADDR is not set. Set it to the address of the machine that runs rank 0 "
        "(accelerate launch: --main_process_ip).");
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

RendezvousOptions rendezvous_options_from_env() {
  constexpr int kMost = std::numeric_limits<int>::max();
  RendezvousOptions options;
  options.world_size = int_in_range(
      {"WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"}, 1, 1, kMost);
  if (options.world_size > 1 &&
      !env_first({"RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"})) {
    throw ConfigError(
        "WORLD_SIZE is " + std::to_string(options.world_size) +
        ", but RANK is not set: a launcher sets both. Start the program with `accelerate launch`.");
  }
  options.rank = int_in_range({"RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"},
                              0, 0, options.world_size - 1);
  options.local_world_size =
      int_in_range({"LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE",
                    "MV2_COMM_WORLD_LOCAL_SIZE"},
                   options.world_size, 1, options.world_size);
  options.local_rank = int_in_range(
      {"LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"},
      options.rank % options.local_world_size, 0, options.local_world_size - 1);
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
