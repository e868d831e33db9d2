// What a scheduler tells a launcher by the environment: Slurm's srun, mpirun, Kubeflow's jobs, or
// whoever sets torchrun's PET_ variables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/plan.h"

namespace accelerate {

/// A text, and the variable that says it.
struct SchedulerValue {
  std::string text;
  std::string variable;
};

/// One of several tasks that a scheduler starts on a machine. It is a rank itself.
struct SchedulerTask {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
};

/// What is absent is not said.
struct Scheduler {
  std::string name;                             ///< "Slurm", "mpirun", "Kubernetes", "torchrun".
  std::optional<SchedulerValue> machines = {};  ///< How many take part.
  std::optional<SchedulerValue> machine = {};   ///< Which one this is, from 0.
  std::optional<SchedulerValue> address = {};   ///< Of machine 0.
  std::optional<SchedulerValue> port = {};      ///< At that address.
  std::optional<SchedulerValue> ranks = {};     ///< Of each machine.
  std::optional<SchedulerValue> gpus = {};      ///< That this machine grants.
  std::optional<SchedulerTask> task = {};       ///< If the machine has several.
  std::string advice = {};                      ///< A sentence for the user; "" if there is none.
  std::string cure = {};                        ///< How a user tells the address, if it is absent.
};

/// Reads `environment`. Returns nullopt if no scheduler started this launcher, and in a rank that a
/// launcher started. Throws ConfigError, which names the variables, if they are no numbers, out of
/// range, or contradict each other.
///
/// Order: torchrun's PET_ variables, MPI's, Slurm's, those of Kubernetes. MASTER_ADDR and MASTER_PORT
/// win over an address and a port that we derive.
[[nodiscard]] std::optional<Scheduler> read_scheduler(const Environment& environment);

/// Returns the variables of this process that are not empty.
[[nodiscard]] Environment process_environment();

/// Returns the hosts of Slurm's notation, in its order: "n[1-3,07],gpu-1" names n1, n2, n3, n07 and
/// gpu-1. Returns nullopt for another text, and for more than 65,536 hosts.
[[nodiscard]] std::optional<std::vector<std::string>> expand_host_list(const std::string& text);

}  // namespace accelerate
