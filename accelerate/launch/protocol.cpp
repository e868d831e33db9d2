#include "accelerate/launch/protocol.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "accelerate/base/environment.h"
#include "accelerate/base/keyed_checksum.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/flags.h"
#include "accelerate/launch/port.h"
#include "accelerate/launch/program.h"

namespace accelerate {
namespace {

// Upstream writes FSDP's booleans and DeepSpeed's words in lower case, and the compiler in capitals.
std::string value_of(const Flag& flag, const std::string& value) {
  if (flag.name == "dynamo_backend") return upper(value);
  return flag.kind == FlagKind::truth || flag.kind == FlagKind::word ? lower(value) : value;
}

// Collects what all ranks are told. Values that nobody asked for are left out, because a file of
// the program may say another. Python's own defaults differ from those of its launcher, so Python
// programs are told the launcher's, except where the user's environment has a value.
class SharedVariables {
 public:
  SharedVariables(const LaunchOptions& settings, ProgramKind kind)
      : settings_(settings), kind_(kind) {}

  void set(const std::string& variable, const std::string& value) {
    environment_[variable] = value;
  }

  // Sets a value that follows from what was asked, unless the user's environment has one.
  void suggest(const std::string& variable, const std::string& value) {
    if (!env(variable.c_str())) set(variable, value);
  }

  void suggest_to_python(const std::string& variable, const std::string& value) {
    if (kind_ == ProgramKind::python) suggest(variable, value);
  }

  // Sets the value of a flag: always if somebody asks for it, as a suggestion if it is a default.
  void set_for(const Flag& flag, const std::string& variable, const std::string& value) {
    if (settings_.asked(flag.name) != nullptr) {
      set(variable, value);
    } else {
      suggest_to_python(variable, value);
    }
  }

  void set_group(FlagGroup group) {
    for (const auto& flag : launch_flags()) {
      const bool is_told =
          flag.group == group && flag.status == FlagStatus::carried && settings_.has(flag.name);
      if (is_told) set_for(flag, variable_of(flag), value_of(flag, settings_.text(flag.name)));
    }
  }

  void erase(const std::string& variable) { environment_.erase(variable); }

  [[nodiscard]] const LaunchOptions& settings() const { return settings_; }
  [[nodiscard]] Environment take() { return std::move(environment_); }

 private:
  const LaunchOptions& settings_;
  ProgramKind kind_;
  Environment environment_;
};

// Without dynamo_backend nothing is compiled, and without mixed_precision all is fp32, in Python
// too: these have no default to tell.
void export_common(SharedVariables& variables) {
  const LaunchOptions& settings = variables.settings();
  const std::string precision = settings.text("mixed_precision");
  if (!precision.empty()) variables.set("ACCELERATE_MIXED_PRECISION", lower(precision));
  variables.set_group(FlagGroup::resources);  // Of the compiler.
  const std::string threads = std::to_string(settings.threads_per_process);
  if (settings.asked("num_cpu_threads_per_process") != nullptr) {
    variables.set("OMP_NUM_THREADS", threads);
  } else {
    variables.suggest("OMP_NUM_THREADS", threads);
  }
  if (settings.is_on("debug")) variables.set("ACCELERATE_DEBUG_MODE", "true");
  if (settings.is_on("enable_cpu_affinity")) variables.set("ACCELERATE_CPU_AFFINITY", "1");
  if (settings.is_on("no_cpu_affinity")) variables.set("ACCELERATE_CPU_AFFINITY", "0");
  const std::string gpus = settings.text("gpu_ids");
  if (!gpus.empty() && lower(gpus) != "all") variables.set("CUDA_VISIBLE_DEVICES", gpus);
}

// KMP_AFFINITY=compact packs threads from the first core on: right for one process, and the worst
// choice for several, which would all sit on the same cores.
void export_cpu(SharedVariables& variables) {
  if (!variables.settings().is_on("cpu")) return;
  variables.set("ACCELERATE_USE_CPU", "True");
  variables.suggest("KMP_BLOCKTIME", "1");
  if (variables.settings().num_processes == 1)
    variables.suggest("KMP_AFFINITY", "granularity=fine,compact,1,0");
}

void export_fsdp(SharedVariables& variables) {
  const LaunchOptions& settings = variables.settings();
  if (settings.has("fsdp_ignored_modules"))
    variables.set("FSDP_IGNORED_MODULES", settings.text("fsdp_ignored_modules"));
}

void export_deepspeed(SharedVariables& variables, ProgramKind kind) {
  const LaunchOptions& settings = variables.settings();
  if (kind == ProgramKind::python || settings.has("deepspeed_config_file"))
    variables.set("ACCELERATE_CONFIG_DS_FIELDS", lower(join(settings.deepspeed_file_fields, ",")));
  if (kind != ProgramKind::python) return;
  const auto path = env("PYTHONPATH");
  const std::string here = std::filesystem::current_path();
  variables.set("PYTHONPATH", path ? *path + ":" + here : here);
}

// Takes back what counts only where sequences are divided.
void export_parallelism(SharedVariables& variables) {
  const LaunchOptions& settings = variables.settings();
  if (settings.text("parallelism_config_cp_size") == "1")
    variables.erase("PARALLELISM_CONFIG_CP_COMM_STRATEGY");
  const bool sequences = settings.text("parallelism_config_sp_size") != "1";
  for (const char* name : {"seq_length", "seq_length_is_variable", "attn_implementation"}) {
    const std::string flag = std::string("parallelism_config_sp_") + name;
    if (!sequences) {
      variables.erase(upper(flag));
    } else if (!settings.has(flag)) {
      variables.suggest_to_python(upper(flag), "None");
    }
  }
}

void export_fp8(SharedVariables& variables) {
  const LaunchOptions& settings = variables.settings();
  const std::string scaling = settings.text("fp8_use_mxfp8_block_scaling");
  if (!scaling.empty())
    variables.set("ACCELERATE_FP8_USE_MXFP8_BLOCK_SCALING", scaling == "true" ? "True" : "False");
  // Three variables instead of one.
  const Flag& precision = *find_flag("fp8_override_linear_precision");
  variables.erase(variable_of(precision));
  const auto parts = split(settings.text(precision.name), ',');
  const std::vector<std::string> names = {"FPROP", "DGRAD", "WGRAD"};
  for (std::size_t i = 0; i < names.size() && i < parts.size(); ++i)
    variables.set_for(precision, "ACCELERATE_FP8_OVERRIDE_" + names[i], parts[i]);
}

// Says who won where the user's environment has one value and a flag or the file another.
void warn_of_overruled_variables(const LaunchOptions& settings, LaunchPlan& plan) {
  for (const auto& flag : launch_flags()) {
    const Setting* setting = settings.asked(flag.name);
    const bool is_off = flag.name == "enable_cpu_affinity" && !settings.is_on(flag.name);
    if (setting == nullptr || is_off) continue;
    const std::string variable = variable_of(flag);
    const auto told = plan.shared.find(variable);
    const auto inherited = env(variable.c_str());
    if (told == plan.shared.end() || !inherited || lower(*inherited) == lower(told->second))
      continue;
    const auto before = parse_bool(*inherited), now = parse_bool(told->second);
    if (before && before == now) continue;
    const bool is_file = setting->source == Setting::Source::file;
    plan.warnings.push_back(variable + " is '" + *inherited + "' in the environment, and " +
                            setting->where + " makes it '" + told->second + "': the " +
                            (is_file ? "file" : "flag") + " wins.");
  }
}

// Makes a fresh token for each launch. So no other job of the machine has it, not even one that was
// started from the same shell.
std::string new_token() {
  if (auto token = random_digits()) return *token;
  throw LaunchError("the system gives no random bits (getrandom) for the token of the job");
}

// One for all starts of this launcher, so that a rank that is started again knows what it has saved
// before.
const std::string& launch_id() {
  static const std::string id = new_token();
  return id;
}

// Returns the address that somebody asks for; empty if none counts. Files keep the address of the
// cluster that they were written for, and one machine needs none.
std::string asked_address(const LaunchOptions& settings, LaunchPlan& plan) {
  const Setting* setting = settings.asked("main_process_ip");
  if (setting == nullptr) return {};
  const std::string& address = setting->text;
  const bool is_left_over = !address.empty() && setting->source == Setting::Source::file &&
                            !is_address_of_this_machine(address);
  if (!is_left_over) return address;
  plan.warnings.push_back(setting->where + " is '" + address +
                          "', which is not an address of this machine, and has no effect on "
                          "one machine: ranks meet on 127.0.0.1.");
  return {};
}

MeetingPoint choose_meeting_point(const LaunchOptions& settings, LaunchPlan& plan) {
  MeetingPoint meeting{.token = new_token()};
  if (const auto address = asked_address(settings, plan); !address.empty())
    meeting.address = address;
  const int asked = settings.main_process_port;
  if (asked != 0 && port_is_free(meeting.address, asked)) {
    meeting.port = asked;
    return meeting;
  }
  meeting.port = free_port(meeting.address);
  if (asked != 0) {
    plan.warnings.push_back(
        "main_process_port " + std::to_string(asked) + " is taken by another program; port " +
        std::to_string(meeting.port) +
        " is used instead. Choose a free one, or 0 to have one chosen without this note.");
  }
  return meeting;
}

// Sets what begins each line that is copied to the terminal: torchrun's, or what its variable says.
void set_prefixes(const LaunchOptions& settings, LaunchPlan& plan) {
  const std::string pattern =
      env("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("[${role_name}${local_rank}]:");
  for (std::size_t rank = 0; rank < plan.output.ranks.size(); ++rank) {
    const std::string local = std::to_string(rank);
    plan.output.ranks[rank].prefix = detail::fill_template(
        pattern, {{"role_name", settings.text("role")},
                  {"local_rank", local},
                  {"rank", std::to_string(plan.first_rank + static_cast<int>(rank))}});
  }
}

}  // namespace

Environment shared_environment(const LaunchOptions& settings, ProgramKind kind) {
  SharedVariables variables(settings, kind);
  export_common(variables);
  export_cpu(variables);
  for (const Mode& mode : launch_modes()) {
    if (!settings.counts(mode.group)) continue;
    if (settings.is_on(mode.flag)) variables.set(variable_of(*find_flag(mode.flag)), "true");
    variables.set_group(mode.group);
  }
  if (settings.counts(FlagGroup::fp8)) export_fp8(variables);
  if (settings.counts(FlagGroup::fsdp)) export_fsdp(variables);
  if (settings.counts(FlagGroup::deepspeed)) export_deepspeed(variables, kind);
  if (settings.counts(FlagGroup::parallelism)) export_parallelism(variables);
  return variables.take();
}

Environment rank_environment(const LaunchOptions& settings, int rank, const MeetingPoint& meeting) {
  if (settings.alone) return settings.task;
  const bool is_one_machine = !meeting.is_hosted;
  const auto number = [](int value) { return std::to_string(value); };
  const int here = settings.num_processes;
  Environment environment = {
      {"RANK", number(meeting.first_rank + rank)},
      {"LOCAL_RANK", number(rank)},
      {"WORLD_SIZE", number(is_one_machine ? here : meeting.ranks_of_all)},
      {"LOCAL_WORLD_SIZE", number(here)},
      {"GROUP_RANK", number(meeting.machine)},
      {"GROUP_WORLD_SIZE", number(meeting.machines)},
      {"ROLE_RANK", number(meeting.first_role_rank + rank)},
      {"ROLE_WORLD_SIZE", number(is_one_machine ? here : meeting.ranks_of_role)},
      {"ROLE_NAME", settings.text("role")},
      {"MASTER_ADDR", meeting.address},
      {"MASTER_PORT", number(meeting.port)},
      {"TORCHELASTIC_RESTART_COUNT", number(meeting.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", number(meeting.max_restarts)},
      {"TORCHELASTIC_RUN_ID", "none"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      // On one machine rank 0 hosts the store. "False" rather than unset: we may run below a
      // torchrun that said True.
      {"TORCHELASTIC_USE_AGENT_STORE", meeting.is_hosted ? "True" : "False"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", env("TORCH_NCCL_ASYNC_ERROR_HANDLING").value_or("1")}};
  if (!meeting.token.empty()) environment["ACCELERATE_JOB_TOKEN"] = meeting.token;
  if (meeting.max_restarts > 0 || meeting.is_hosted)
    environment["ACCELERATE_LAUNCH_ID"] = meeting.launch.empty() ? launch_id() : meeting.launch;
  return environment;
}

Environment settings_of_all_machines(const LaunchOptions& settings) {
  Environment all = shared_environment(settings, ProgramKind::native);
  std::erase_if(all, [](const auto& variable) {
    const std::string& name = variable.first;
    const bool is_of_machine = name == "ACCELERATE_CPU_AFFINITY" || name == "ACCELERATE_DEBUG_MODE";
    const auto begins = {"ACCELERATE_", "FSDP_", "PARALLELISM_CONFIG_", "MEGATRON_LM_"};
    return is_of_machine ||
           std::ranges::none_of(begins, [&](const char* begin) { return name.starts_with(begin); });
  });
  return all;
}

LaunchPlan make_plan(const LaunchOptions& settings, const std::vector<std::string>& program,
                     const MeetingPoint* meeting, int restarts) {
  auto argv = resolve_program(program, {settings.is_on("module"), settings.is_on("no_python")});
  LaunchPlan plan =
      make_plan(settings, may_run_python(argv) ? ProgramKind::python : ProgramKind::native, meeting,
                restarts);
  plan.argv = std::move(argv);
  return plan;
}

LaunchPlan make_plan(const LaunchOptions& settings, ProgramKind kind, const MeetingPoint* met,
                     int restarts) {
  if (settings.num_machines > 1 && met == nullptr) {
    throw LaunchError(
        "the plan of one of several machines needs to know where they have met: see "
        "MachineGroup in launch/machines/machine_group.h");
  }
  LaunchPlan plan;
  plan.warnings = settings.warnings;
  plan.grace_period = settings.grace_period;
  plan.shared = shared_environment(settings, kind);
  warn_of_overruled_variables(settings, plan);
  MeetingPoint meeting = met == nullptr ? MeetingPoint{} : *met;
  if (met == nullptr && !settings.alone) {
    meeting = choose_meeting_point(settings, plan);
    meeting.restarts = restarts;
    meeting.max_restarts = settings.max_restarts;
  }
  plan.first_rank = meeting.first_rank;
  plan.attempt = meeting.restarts;
  if (const auto rank = settings.task.find("RANK"); rank != settings.task.end())
    plan.first_rank = std::stoi(rank->second);
  plan.cores = settings.cores;
  plan.output = settings.output;
  set_prefixes(settings, plan);
  for (int rank = 0; rank < settings.num_processes; ++rank) {
    plan.ranks.push_back(rank_environment(settings, rank, meeting));
    if (settings.cores.empty()) continue;
    const CoreShare& share = settings.cores[static_cast<std::size_t>(rank)];
    plan.ranks.back()["ACCELERATE_CPU_CORES"] = cpu_list_text(share.cpus);
  }
  return plan;
}

}  // namespace accelerate
