#include "accelerate/launch/machines/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <tuple>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/rendezvous_options.h"

namespace accelerate {
namespace {

using Value = std::optional<SchedulerValue>;
using Names = std::initializer_list<const char*>;

constexpr std::int64_t kMost = 1'000'000;  // Machines and ranks.
constexpr std::size_t kMostHosts = 65'536;

// Variables by name. A variable that is empty counts as absent.
class Variables {
 public:
  explicit Variables(const Environment& all) : all_(all) {}

  // The first of `names` that is set.
  [[nodiscard]] Value first(Names names) const {
    for (const char* name : names) {
      const auto found = all_.find(name);
      if (found != all_.end() && !found->second.empty())
        return SchedulerValue{.text = found->second, .variable = name};
    }
    return std::nullopt;
  }

  [[nodiscard]] bool has(const char* name) const { return first({name}).has_value(); }

  // The first of `names` that is set, as a number from `low` to `high`.
  [[nodiscard]] Value number(Names names, std::int64_t low, std::int64_t high) const {
    const Value value = first(names);
    if (!value) return std::nullopt;
    const auto number = parse_int(value->text);
    if (number && *number >= low && *number <= high) return value;
    throw ConfigError(value->variable + " is '" + value->text +
                      "'; it must be a whole number from " + std::to_string(low) + " to " +
                      std::to_string(high) +
                      ". A scheduler sets it; unset it if it is left over from something else.");
  }

  [[nodiscard]] Value port() const { return number({"MASTER_PORT"}, 1, 65535); }

 private:
  const Environment& all_;
};

int number_of(const SchedulerValue& value) {
  return static_cast<int>(parse_int(value.text).value_or(0));
}

void check_machine(const Scheduler& scheduler) {
  const auto& [machines, machine] = std::tie(scheduler.machines, scheduler.machine);
  if (!machines || !machine || number_of(*machine) < number_of(*machines)) return;
  throw ConfigError(machine->variable + " is '" + machine->text + "', and " + machines->variable +
                        " is '" + machines->text + "': machines are numbered from 0 to " +
                        std::to_string(number_of(*machines) - 1) +
                        ". Unset what is left over from another job.",
                    error_name::kLauncherVariables);
}

void check_task(const SchedulerTask& task, const std::string& rank, const std::string& size) {
  if (task.rank < task.world_size && task.local_rank < task.local_world_size &&
      task.local_world_size <= task.world_size)
    return;
  throw ConfigError(rank + " says that this is task " + std::to_string(task.rank) + ", the " +
                    std::to_string(task.local_rank + 1) + ". of " +
                    std::to_string(task.local_world_size) + " on this machine, and " + size +
                    " that there are " + std::to_string(task.world_size) +
                    ". Unset what is left over from another job.");
}

// --- torchrun's variables, which Kubeflow sets ---------------------------------------------------

// Returns N for "N" and "N:N". A range is for jobs that grow and shrink.
SchedulerValue fixed_machines(SchedulerValue machines) {
  const auto colon = machines.text.find(':');
  const std::string low = machines.text.substr(0, colon);
  const std::string high = colon == std::string::npos ? low : machines.text.substr(colon + 1);
  const auto number = parse_int(low);
  if (!number || *number < 1 || *number > kMost || low != high) {
    throw ConfigError(machines.variable + " is '" + machines.text +
                      "'; a job here has a fixed number of machines, such as 4. Leave out the "
                      "elastic policy of the job.");
  }
  machines.text = low;
  return machines;
}

Value ranks_of_torchrun(const Variables& variables) {
  const Value ranks = variables.first({"PET_NPROC_PER_NODE"});
  if (!ranks || ranks->text == "auto" || ranks->text == "gpu" || ranks->text == "cpu")
    return std::nullopt;  // As many as this launcher finds devices.
  return variables.number({"PET_NPROC_PER_NODE"}, 1, kMost);
}

// Where "host:port" of torchrun's rendezvous leads, if no address of machine 0 is given.
void take_endpoint(const Variables& variables, Scheduler& scheduler) {
  const Value endpoint = variables.first({"PET_RDZV_ENDPOINT"});
  if (!endpoint || scheduler.address) return;
  const auto colon = endpoint->text.rfind(':');
  scheduler.address = {endpoint->text.substr(0, colon), endpoint->variable};
  if (colon == std::string::npos || scheduler.port) return;
  scheduler.port = {endpoint->text.substr(colon + 1), endpoint->variable};
  const auto port = parse_int(scheduler.port->text);
  if (port && *port >= 1 && *port <= 65535) return;
  throw ConfigError(endpoint->variable + " is '" + endpoint->text +
                    "'; it must be an address and a port, such as 10.0.0.1:29400.");
}

// A pod knows its own name before the cluster's name service does. Old operators tell machine 0
// "localhost", where no other machine reaches it.
void use_own_name_of_pod(const Variables& variables, Scheduler& scheduler) {
  const Value own = variables.first({"HOSTNAME"});
  if (!own || !scheduler.address || !scheduler.machine || scheduler.machine->text != "0") return;
  const std::string& address = scheduler.address->text;
  const bool is_loopback = address == "localhost" || address.starts_with("127.");
  const bool is_several = scheduler.machines && scheduler.machines->text != "1";
  if ((is_loopback && is_several) || address.starts_with(own->text + ".")) scheduler.address = own;
}

std::optional<Scheduler> of_torchrun(const Variables& variables) {
  const Value machines = variables.first({"PET_NNODES"});
  if (!machines) return std::nullopt;
  const bool is_pod = variables.has("KUBERNETES_SERVICE_HOST");
  Scheduler scheduler{.name = is_pod ? "Kubernetes" : "torchrun"};
  scheduler.machines = fixed_machines(*machines);
  scheduler.machine = variables.number({"PET_NODE_RANK", "JOB_COMPLETION_INDEX"}, 0, kMost);
  scheduler.address = variables.first({"PET_MASTER_ADDR", "MASTER_ADDR"});
  scheduler.port = variables.number({"PET_MASTER_PORT", "MASTER_PORT"}, 1, 65535);
  scheduler.ranks = ranks_of_torchrun(variables);
  scheduler.cure = "Set PET_MASTER_ADDR, or pass --main_process_ip ADDRESS.";
  take_endpoint(variables, scheduler);
  if (is_pod) use_own_name_of_pod(variables, scheduler);
  return scheduler;
}

// --- Kubernetes without torchrun's variables -------------------------------------------------------

// PyTorchJobs of old operators count pods in WORLD_SIZE. Pods of an indexed Job have an index only.
std::optional<Scheduler> of_kubernetes(const Variables& variables) {
  if (!variables.has("KUBERNETES_SERVICE_HOST")) return std::nullopt;
  Scheduler scheduler{.name = "Kubernetes"};
  scheduler.machine = variables.number({"RANK", "JOB_COMPLETION_INDEX"}, 0, kMost);
  if (!scheduler.machine) return std::nullopt;
  scheduler.machines = variables.number({"WORLD_SIZE"}, 1, kMost);
  scheduler.address = variables.first({"MASTER_ADDR"});
  scheduler.port = variables.port();
  scheduler.cure = "Set MASTER_ADDR in the manifest, or pass --main_process_ip ADDRESS.";
  use_own_name_of_pod(variables, scheduler);
  return scheduler;
}

// --- Slurm -----------------------------------------------------------------------------------------

// The first host of the step, or of the job if mpirun made the step. MASTER_ADDR wins.
Value first_host(const Variables& variables, Names lists) {
  if (const Value address = variables.first({"MASTER_ADDR"})) return address;
  const Value list = variables.first(lists);
  if (!list) return std::nullopt;
  const auto hosts = expand_host_list(list->text);
  if (hosts) return SchedulerValue{.text = hosts->front(), .variable = list->variable};
  throw ConfigError(list->variable + " is '" + list->text +
                    "'; it must be a list of hosts, such as n[1-3,7],gpu-01. Set MASTER_ADDR to "
                    "the address of the first host instead.");
}

// Two jobs that share a node must not share a port. The ports lie below those that Linux gives to
// clients.
SchedulerValue port_from(std::uint64_t number, const std::string& variable) {
  return {.text = std::to_string(12'000 + number % 20'000), .variable = variable};
}

Value port_of_slurm(const Variables& variables) {
  if (const Value port = variables.port()) return port;
  const Value job = variables.number({"SLURM_JOB_ID", "SLURM_JOBID"}, 0, INT64_MAX);
  if (!job) return std::nullopt;
  const Value step = variables.number({"SLURM_STEP_ID", "SLURM_STEPID"}, 0, INT64_MAX);
  const auto number = [](const Value& value) {
    return value ? static_cast<std::uint64_t>(parse_int(value->text).value_or(0)) : 0;
  };
  return port_from(number(job) * 61 + number(step), job->variable);
}

std::string advice_to_call_srun(const Variables& variables) {
  const Value nodes = variables.first({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
  if (!nodes || parse_int(nodes->text).value_or(1) < 2) return {};
  return nodes->variable + " is " + nodes->text +
         ", but srun did not start this launcher, which therefore uses this node alone. To use "
         "all nodes: srun --ntasks-per-node 1 accelerate launch …";
}

void become_task_of_slurm(const Variables& variables, int tasks, int node, Scheduler& scheduler) {
  const Value rank = variables.number({"SLURM_PROCID"}, 0, kMost);
  const Value local = variables.number({"SLURM_LOCALID"}, 0, kMost);
  const Value layout = variables.first({"SLURM_STEP_TASKS_PER_NODE"});
  const auto here = layout ? detail::tasks_of_node(layout->text, node) : std::nullopt;
  if (!rank || !local || !here) {
    throw ConfigError("SLURM_STEP_NUM_TASKS is '" + std::to_string(tasks) +
                      "', but SLURM_PROCID, SLURM_LOCALID or SLURM_STEP_TASKS_PER_NODE does not "
                      "say which task this is. Start the launcher with srun.");
  }
  scheduler.task = {number_of(*rank), tasks, number_of(*local), *here};
  check_task(*scheduler.task, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
}

// Only srun sets SLURM_STEP_NUM_TASKS; a batch script has the variables of the job without being a
// task.
std::optional<Scheduler> of_slurm(const Variables& variables) {
  Scheduler scheduler{.name = "Slurm"};
  const Value tasks = variables.number({"SLURM_STEP_NUM_TASKS"}, 1, kMost);
  if (!tasks) {
    scheduler.advice = advice_to_call_srun(variables);
    return scheduler.advice.empty() ? std::nullopt : std::optional(scheduler);
  }
  scheduler.machines = variables.number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}, 1, kMost);
  scheduler.machine = variables.number({"SLURM_NODEID"}, 0, kMost);
  if (!scheduler.machines || !scheduler.machine) {
    throw ConfigError(
        "SLURM_STEP_NUM_TASKS is '" + tasks->text +
            "', but SLURM_STEP_NUM_NODES or SLURM_NODEID is not set. Start the launcher "
            "with srun, or unset the first.",
        error_name::kLauncherVariables);
  }
  scheduler.address = first_host(variables, {"SLURM_STEP_NODELIST", "SLURM_NODELIST"});
  scheduler.port = port_of_slurm(variables);
  scheduler.gpus = variables.number({"SLURM_GPUS_ON_NODE"}, 0, kMost);
  scheduler.cure = "Set MASTER_ADDR to it, or pass --main_process_ip ADDRESS.";
  if (number_of(*tasks) > number_of(*scheduler.machines))
    become_task_of_slurm(variables, number_of(*tasks), number_of(*scheduler.machine), scheduler);
  return scheduler;
}

// --- MPI -------------------------------------------------------------------------------------------

// How one family of MPI spells them.
struct MpiNames {
  const char *size, *rank, *local_size, *local_rank;
};

constexpr MpiNames kMpiNames[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                                  {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
                                  {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK",
                                   "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"}};

// Open MPI names each job; all its processes see the same name. FNV-1a, so that all machines
// compute the same number.
Value port_of_mpi(const Variables& variables) {
  if (const Value port = variables.port()) return port;
  const Value job = variables.first({"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid"});
  if (!job) return port_of_slurm(variables);
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : job->text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return port_from(hash, job->variable);
}

std::optional<Scheduler> of_mpi(const Variables& variables) {
  for (const MpiNames& names : kMpiNames) {
    // Slurm sets PMI_SIZE too, but not the local size.
    const Value size = variables.number({names.size}, 1, kMost);
    const Value local_size = variables.number({names.local_size}, 1, kMost);
    if (!size || !local_size) continue;
    Scheduler scheduler{.name = "mpirun"};
    const Value rank = variables.number({names.rank}, 0, kMost);
    const Value local = variables.number({names.local_rank}, 0, kMost);
    if (!rank || !local) {
      throw ConfigError(size->variable + " is '" + size->text + "', but " + names.rank + " or " +
                            names.local_rank +
                            " is not set. Start the launcher with mpirun, or unset "
                            "the first.",
                        error_name::kLauncherVariables);
    }
    scheduler.machines = size;
    scheduler.machine = rank;
    scheduler.address = first_host(variables, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    scheduler.port = port_of_mpi(variables);
    scheduler.cure =
        "Tell all of them: mpirun -x MASTER_ADDR=HOST (Open MPI), mpirun -genv MASTER_ADDR HOST "
        "(MPICH, Intel MPI), or --main_process_ip HOST.";
    if (local_size->text == "1") return scheduler;
    scheduler.task = {number_of(*rank), number_of(*size), number_of(*local),
                      number_of(*local_size)};
    check_task(*scheduler.task, names.rank, names.size);
    return scheduler;
  }
  return std::nullopt;
}

// --- Host lists ------------------------------------------------------------------------------------

// Reads "1-3" or "07" into `numbers`, with the zeros in front.
bool read_range(const std::string& text, std::vector<std::string>& numbers) {
  const auto dash = text.find('-');
  const std::string first = text.substr(0, dash);
  const std::string last = dash == std::string::npos ? first : text.substr(dash + 1);
  const auto is_number = [](const std::string& word) {
    return !word.empty() && word.size() < 10 &&
           std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!is_number(first) || !is_number(last)) return false;
  const auto low = *parse_int(first), high = *parse_int(last);
  if (low > high || static_cast<std::size_t>(high - low) >= kMostHosts) return false;
  for (auto number = low; number <= high; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return true;
}

// Appends to each of `hosts` each of `ends`.
bool append_each(std::vector<std::string>& hosts, const std::vector<std::string>& ends) {
  if (hosts.size() * ends.size() > kMostHosts) return false;
  std::vector<std::string> longer;
  for (const auto& host : hosts) {
    for (const auto& end : ends) longer.push_back(host + end);
  }
  hosts = std::move(longer);
  return true;
}

// Expands one element, such as "rack[1-2]n[01-08]-ib".
std::optional<std::vector<std::string>> expand_element(std::string_view text) {
  std::vector<std::string> hosts = {""};
  while (!text.empty()) {
    const auto open = text.find('[');
    const std::string word(text.substr(0, open));
    if (word.find_first_of("]/ \t") != std::string::npos || !append_each(hosts, {word}))
      return std::nullopt;
    if (open == std::string_view::npos) return hosts;
    const auto close = text.find(']', open);
    if (close == std::string_view::npos) return std::nullopt;
    std::vector<std::string> numbers;
    for (const auto& range : split(text.substr(open + 1, close - open - 1), ',')) {
      if (!read_range(range, numbers)) return std::nullopt;
    }
    if (!append_each(hosts, numbers)) return std::nullopt;
    text.remove_prefix(close + 1);
  }
  if (hosts.size() == 1 && hosts[0].empty()) return std::nullopt;
  return hosts;
}

}  // namespace

std::optional<Scheduler> read_scheduler(const Environment& environment) {
  const Variables variables(environment);
  if (variables.has("LOCAL_RANK")) return std::nullopt;  // A launcher started this rank.
  for (const auto reader : {of_torchrun, of_mpi, of_slurm, of_kubernetes}) {
    auto scheduler = reader(variables);
    if (!scheduler) continue;
    if (!scheduler->task) check_machine(*scheduler);
    return scheduler;
  }
  return std::nullopt;
}

Environment process_environment() {
  Environment all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view assignment(*entry);
    const auto equals = assignment.find('=');
    if (equals != std::string_view::npos && equals + 1 < assignment.size())
      all.emplace(assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  return all;
}

std::optional<std::vector<std::string>> expand_host_list(const std::string& text) {
  std::vector<std::string> all;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char letter = i == text.size() ? ',' : text[i];
    depth += letter == '[' ? 1 : letter == ']' ? -1 : 0;
    const bool is_end = i == text.size() || (letter == ',' && depth == 0);
    if (!is_end) continue;
    const auto hosts = expand_element(std::string_view(text).substr(begin, i - begin));
    if (!hosts || all.size() + hosts->size() > kMostHosts) return std::nullopt;
    all.insert(all.end(), hosts->begin(), hosts->end());
    begin = i + 1;
  }
  return all;
}

}  // namespace accelerate
