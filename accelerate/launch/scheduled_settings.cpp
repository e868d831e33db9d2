// Takes from a scheduler what neither flags nor the file say, and decides what starts the ranks.
#include <algorithm>
#include <tuple>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/settings.h"

namespace accelerate::detail {
namespace {

using Source = Setting::Source;

// How to start one launcher a machine.
std::string one_a_machine(const Scheduler& scheduler) {
  return scheduler.name == "Slurm" ? "srun --ntasks-per-node 1 accelerate launch …"
                                   : "mpirun -n MACHINES --map-by ppr:1:node accelerate launch … "
                                     "(Open MPI), mpirun -n MACHINES -ppn 1 … (MPICH, Intel MPI)";
}

class Taking {
 public:
  Taking(const LaunchRequest& request, LaunchOptions& settings)
      : request_(request), scheduler_(*request.scheduler), settings_(settings) {}

  void run() {
    if (!scheduler_.advice.empty()) settings_.warnings.push_back(scheduler_.advice);
    if (scheduler_.task) return become_task();
    if (is_overruled()) return;
    take_machines();
    take_ranks();
    if (settings_.text("num_machines") == "1" || settings_.text("num_machines").empty()) {
      for (const char* name : {"num_machines", "machine_rank"}) forget(name);
      return tell();
    }
    refuse_gaps();
    tell();
  }

 private:
  // Whether a flag, or the file, says `name`. The original's questionnaire writes one machine, number
  // 0, into every file, and the same file lies on all machines: such values say nothing.
  [[nodiscard]] bool is_said(const std::string& name) const {
    const Setting* setting = settings_.asked(name);
    if (setting == nullptr || setting->text.empty()) return false;
    if (setting->source == Source::flag) return true;
    if (name == "num_machines") return setting->text != "1";
    if (name == "num_processes") return setting->text != "-1";  // Left to the command line.
    return (name != "machine_rank" && name != "main_process_port") || setting->text != "0";
  }

  // Returns whether flags or the file ask for other machines than the scheduler has.
  bool is_overruled() {
    if (!is_said("num_machines") || !scheduler_.machines) return false;
    const Setting& said = *settings_.asked("num_machines");
    if (said.text == scheduler_.machines->text) return false;
    const bool is_flag = said.source == Source::flag;
    settings_.warnings.push_back(
        said.where + " is '" + said.text + "', and " + scheduler_.machines->variable + " is '" +
        scheduler_.machines->text + "': the " + (is_flag ? "flag" : "file") +
        " wins, and nothing is taken from " + scheduler_.name + ".");
    return true;
  }

  void take(const std::string& name, const std::optional<SchedulerValue>& value) {
    if (!value || is_said(name)) return;
    settings_.values[name] = {
        .text = value->text, .source = Source::scheduler, .where = value->variable};
    taken_.push_back(name);
  }

  void take_machines() {
    is_for_one_ = !is_said("num_machines");
    take("num_machines", scheduler_.machines);
    const std::string machines = settings_.text("num_machines");
    if (machines.empty() || machines == "1") return;
    take("machine_rank", scheduler_.machine);
    take("main_process_ip", scheduler_.address);
    take("main_process_port", scheduler_.port);
  }

  // num_processes counts the ranks of all machines. But a file for one machine counts those of that
  // machine.
  void take_ranks() {
    const auto machines = parse_int(settings_.text("num_machines")).value_or(1);
    const auto times_machines = [&](const std::string& text) {
      const auto ranks = parse_int(text).value_or(0);
      return ranks > 0 && ranks <= 1'000'000 ? std::to_string(ranks * machines) : text;
    };
    if (is_said("num_processes")) {
      Setting& said = settings_.values["num_processes"];
      if (said.source == Source::file && is_for_one_) said.text = times_machines(said.text);
      return;
    }
    if (!scheduler_.ranks) return;
    take("num_processes", SchedulerValue{.text = times_machines(scheduler_.ranks->text),
                                         .variable = scheduler_.ranks->variable});
  }

  void forget(const std::string& name) {
    const Setting* setting = settings_.asked(name);
    if (setting == nullptr || setting->source != Source::scheduler) return;
    settings_.values.erase(name);
    std::erase(taken_, name);
  }

  // Throws if several machines take part, and the scheduler says neither which one this is nor where
  // they meet.
  void refuse_gaps() const {
    const Setting& machines = *settings_.asked("num_machines");
    const std::string begin = machines.where + " is '" + machines.text + "', but ";
    if (settings_.asked("machine_rank") == nullptr) {
      throw ConfigError(begin + "nothing in the environment of " + scheduler_.name +
                        " says which machine this is. Set PET_NODE_RANK, or pass --machine_rank.");
    }
    if (settings_.text("main_process_ip").empty())
      throw ConfigError(begin + scheduler_.name + " does not tell the address of machine 0. " +
                        scheduler_.cure);
  }

  void refuse_flags_of_launchers() const {
    const SchedulerTask& task = *scheduler_.task;
    const std::string tasks = scheduler_.name + " starts " + std::to_string(task.world_size) +
                              " tasks, " + std::to_string(task.local_world_size) +
                              " on this machine, and each becomes a rank";
    for (const char* name : {"num_machines", "machine_rank", "num_processes"}) {
      const auto flag = request_.flags.find(name);
      if (flag == request_.flags.end()) continue;
      const bool is_count = std::string(name) == "num_processes";
      if (is_count && (flag->second == "1" || flag->second == std::to_string(task.world_size)))
        continue;
      throw ConfigError(tasks + ", so --" + name + " " + flag->second +
                        " says nothing. Leave it out, or start one launcher a machine: " +
                        one_a_machine(scheduler_) + ".");
    }
  }

  void become_task() {
    refuse_flags_of_launchers();
    const SchedulerTask& task = *scheduler_.task;
    const bool is_one_machine = task.world_size == task.local_world_size;
    const auto chosen = [&](const char* name, const std::optional<SchedulerValue>& value,
                            const char* otherwise) {
      const std::string text = is_said(name) ? settings_.text(name) : value ? value->text : "";
      return text.empty() ? otherwise : text;
    };
    const std::string address =
        chosen("main_process_ip", scheduler_.address, is_one_machine ? "127.0.0.1" : "");
    if (address.empty()) {
      throw ConfigError(scheduler_.name + " starts " + std::to_string(task.world_size) +
                        " tasks on several machines, but does not tell the address of machine "
                        "0. " +
                        scheduler_.cure);
    }
    const std::string port = chosen("main_process_port", scheduler_.port, "29500");
    const auto number = [](int value) { return std::to_string(value); };
    settings_.task = {{"RANK", number(task.rank)},
                      {"WORLD_SIZE", number(task.world_size)},
                      {"LOCAL_RANK", number(task.local_rank)},
                      {"LOCAL_WORLD_SIZE", number(task.local_world_size)},
                      {"MASTER_ADDR", address},
                      {"MASTER_PORT", port}};
    for (const char* name : {"num_machines", "machine_rank", "num_processes"})
      settings_.values.erase(name);
    if (task.rank != 0) return;
    settings_.from_scheduler = scheduler_.name + " starts " + number(task.world_size) +
                               " tasks, and each becomes a rank. They meet at " + address +
                               ", port " + port + ".";
  }

  void tell() {
    std::vector<std::string> parts;
    for (const auto& name : taken_) {
      const Setting& setting = settings_.values.at(name);
      parts.push_back(name + " " + setting.text + " (" + setting.where + ")");
    }
    if (!parts.empty())
      settings_.from_scheduler = "taken from " + scheduler_.name + ": " + join(parts, ", ");
  }

  const LaunchRequest& request_;
  const Scheduler& scheduler_;
  LaunchOptions& settings_;
  std::vector<std::string> taken_;  // Names of flags, in order.
  bool is_for_one_ = true;          // Neither flags nor the file ask for several machines.
};

}  // namespace

void take_from_scheduler(const LaunchRequest& request, LaunchOptions& settings) {
  if (request.scheduler) Taking(request, settings).run();
}

// A hostfile that a flag names counts. Files keep one when they are taken from a cluster, so its key
// counts where they name several machines.
void choose_starter(const LaunchRequest& request, LaunchOptions& settings) {
  const auto is_given = [&](const std::string& name) { return request.flags.contains(name); };
  const bool is_one_machine = settings.num_machines == 1;
  const bool is_started =
      request.scheduler && (request.scheduler->machine || request.scheduler->task);
  settings.by_mpirun = !settings.text("mpirun_hostfile").empty() && !is_started &&
                       (is_given("mpirun_hostfile") || !is_one_machine);
  if (is_started || !is_one_machine) return;
  std::vector<std::string> idle;
  for (const std::string name :
       {"deepspeed_hostfile", "deepspeed_exclusion_filter", "deepspeed_inclusion_filter",
        "deepspeed_multinode_launcher", "mpirun_hostfile"}) {
    const std::string value = lower(settings.text(name));
    const bool counts = is_given(name) && name.ends_with("hostfile");
    if (!value.empty() && value != "standard" && !counts) idle.push_back(request.where(name));
  }
  if (idle.empty()) return;
  settings.warnings.push_back(join(idle, ", ") + (idle.size() == 1 ? " has" : " have") +
                              " no effect on one machine.");
}

}  // namespace accelerate::detail
