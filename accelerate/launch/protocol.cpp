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

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  });
  return text;
}

// Returns the variable of a flag: Flag::variable, or its name in capitals, after ACCELERATE_ for
// fp8.
std::string variable_of(const Flag& flag) {
  if (!flag.variable.empty()) return flag.variable;
  return (flag.group == FlagGroup::fp8 ? "ACCELERATE_" : "") + upper(flag.name);
}

// Upstream writes FSDP's booleans and DeepSpeed's words in lower case, except names and paths.
std::string value_of(const Flag& flag, const std::string& value) {
  const bool lowered = flag.kind == FlagKind::truth || flag.name == "fsdp_reshard_after_forward" ||
                       flag.name == "offload_optimizer_device" ||
                       flag.name == "offload_param_device";
  return lowered ? lower(value) : value;
}

// Collects what all ranks are told. Values that nobody asked for are left out, because a file of
// the program may say another. Python's own defaults differ from those of its launcher, so Python
// programs are told the launcher's, except where the user's environment has a value.
class SharedVariables {
 public:
  SharedVariables(const LaunchSettings& settings, ProgramKind kind)
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

  void set_flag(const Flag& flag, const std::string& value) {
    if (settings_.asked.contains(flag.name)) {
      set(variable_of(flag), value);
    } else {
      suggest_to_python(variable_of(flag), value);
    }
  }

  void set_group(FlagGroup group) {
    for (const auto& flag : launch_flags()) {
      const bool is_told =
          flag.group == group && flag.status == FlagStatus::carried && settings_.has(flag.name);
      if (is_told) set_flag(flag, value_of(flag, settings_.text(flag.name)));
    }
  }

  void erase(const std::string& variable) { environment_.erase(variable); }

  [[nodiscard]] const LaunchSettings& settings() const { return settings_; }
  [[nodiscard]] Environment take() { return std::move(environment_); }

 private:
  const LaunchSettings& settings_;
  ProgramKind kind_;
  Environment environment_;
};

// Without dynamo_backend nothing is compiled, and without mixed_precision all is fp32, in Python
// too: these have no default to tell.
void export_common(SharedVariables& variables) {
  const LaunchSettings& settings = variables.settings();
  const std::string precision = settings.text("mixed_precision");
  if (!precision.empty()) variables.set("ACCELERATE_MIXED_PRECISION", lower(precision));
  const std::string backend = settings.text("dynamo_backend");
  if (!backend.empty()) variables.set("ACCELERATE_DYNAMO_BACKEND", upper(backend));
  for (const char* name : {"dynamo_mode", "dynamo_use_fullgraph", "dynamo_use_dynamic",
                           "dynamo_use_regional_compilation"}) {
    variables.set_flag(*find_flag(name), settings.text(name));
  }
  const std::string threads = std::to_string(settings.threads_per_process);
  if (settings.asked.contains("num_cpu_threads_per_process")) {
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
  if (!variables.settings().use_cpu) return;
  variables.set("ACCELERATE_USE_CPU", "True");
  variables.suggest("KMP_BLOCKTIME", "1");
  if (variables.settings().num_processes == 1)
    variables.suggest("KMP_AFFINITY", "granularity=fine,compact,1,0");
}

void export_fsdp(SharedVariables& variables) {
  variables.set("ACCELERATE_USE_FSDP", "true");
  variables.set_group(FlagGroup::fsdp);
  const auto& file_only = variables.settings().file_only;
  const auto ignored = file_only.find("fsdp_ignored_modules");
  if (ignored != file_only.end()) variables.set("FSDP_IGNORED_MODULES", ignored->second);
}

void export_deepspeed(SharedVariables& variables, ProgramKind kind) {
  variables.set("ACCELERATE_USE_DEEPSPEED", "true");
  variables.set_group(FlagGroup::deepspeed);
  if (kind != ProgramKind::python) return;
  variables.set("ACCELERATE_CONFIG_DS_FIELDS",
                lower(join(variables.settings().deepspeed_file_fields, ",")));
  const auto path = env("PYTHONPATH");
  const std::string here = std::filesystem::current_path();
  variables.set("PYTHONPATH", path ? *path + ":" + here : here);
}

void export_parallelism(SharedVariables& variables) {
  const LaunchSettings& settings = variables.settings();
  variables.set("ACCELERATE_USE_PARALLELISM_CONFIG", "true");
  variables.set_group(FlagGroup::parallelism);
  if (settings.text("parallelism_config_cp_size") == "1") {
    variables.erase("PARALLELISM_CONFIG_CP_COMM_STRATEGY");
  }
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
  const LaunchSettings& settings = variables.settings();
  variables.set_group(FlagGroup::fp8);
  variables.erase("ACCELERATE_FP8_OVERRIDE_LINEAR_PRECISION");
  const auto scaling = settings.file_only.find("fp8_use_mxfp8_block_scaling");
  if (scaling != settings.file_only.end()) {
    variables.set("ACCELERATE_FP8_USE_MXFP8_BLOCK_SCALING",
                  parse_bool(scaling->second).value_or(false) ? "True" : "False");
  }
  const bool is_asked = settings.asked.contains("fp8_override_linear_precision");
  const auto parts = split(settings.text("fp8_override_linear_precision"), ',');
  const std::vector<std::string> names = {"FPROP", "DGRAD", "WGRAD"};
  for (std::size_t i = 0; i < names.size() && i < parts.size(); ++i) {
    const std::string variable = "ACCELERATE_FP8_OVERRIDE_" + names[i];
    if (is_asked) {
      variables.set(variable, parts[i]);
    } else {
      variables.suggest_to_python(variable, parts[i]);
    }
  }
}

// Says who won where the user's environment has one value and a flag or the file another.
void tell_of_overruled_variables(const Environment& shared, LaunchSettings& settings) {
  for (const auto& flag : launch_flags()) {
    const auto origin = settings.asked.find(flag.name);
    const bool is_off = flag.name == "enable_cpu_affinity" && !settings.is_on(flag.name);
    if (origin == settings.asked.end() || is_off) continue;
    const std::string variable = variable_of(flag);
    const auto told = shared.find(variable);
    const auto inherited = env(variable.c_str());
    if (told == shared.end() || !inherited || lower(*inherited) == lower(told->second)) continue;
    const auto before = parse_bool(*inherited), now = parse_bool(told->second);
    if (before && before == now) continue;
    settings.warnings.push_back(variable + " is '" + *inherited + "' in the environment, and " +
                                origin->second.where + " makes it '" + told->second + "': the " +
                                (origin->second.is_file ? "file" : "flag") + " wins.");
  }
}

// Makes a fresh token for each launch. So no other job of the machine has it, not even one that was
// started from the same shell.
std::string new_token() {
  if (auto token = random_digits()) return *token;
  throw LaunchError("the system gives no random bits (getrandom) for the token of the job");
}

// Returns the address that was asked for; empty if none counts. Files keep the address of the
// cluster that they were written for, and one machine needs none.
std::string asked_address(LaunchSettings& settings) {
  const std::string address = settings.text("main_process_ip");
  const auto origin = settings.asked.find("main_process_ip");
  const bool is_left_over = !address.empty() && origin != settings.asked.end() &&
                            origin->second.is_file && !is_address_of_this_machine(address);
  if (!is_left_over) return address;
  settings.warnings.push_back(origin->second.where + " is '" + address +
                              "', which is not an address of this machine, and has no effect on "
                              "one machine: ranks meet on 127.0.0.1.");
  return {};
}

MeetingPoint choose_meeting_point(LaunchSettings& settings) {
  MeetingPoint meeting{.token = new_token()};
  if (const auto address = asked_address(settings); !address.empty()) meeting.address = address;
  const auto asked = parse_int(settings.text("main_process_port")).value_or(0);
  if (asked != 0 && port_is_free(meeting.address, static_cast<int>(asked))) {
    meeting.port = static_cast<int>(asked);
    return meeting;
  }
  meeting.port = free_port(meeting.address);
  if (asked != 0) {
    settings.warnings.push_back(
        "main_process_port " + std::to_string(asked) + " is taken by another program; port " +
        std::to_string(meeting.port) +
        " is used instead. Choose a free one, or 0 to have one chosen without this note.");
  }
  return meeting;
}

std::chrono::milliseconds grace_period(const LaunchSettings& settings) {
  const double seconds = parse_double(settings.text("grace_period")).value_or(30);
  if (seconds < 0 || seconds > 1e6) {
    throw ConfigError("--grace_period is '" + settings.text("grace_period") +
                      "'; it must lie between 0 and 1000000 seconds.");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

Environment shared_environment(const LaunchSettings& settings, ProgramKind kind) {
  SharedVariables variables(settings, kind);
  export_common(variables);
  const bool fsdp = settings.is_on("use_fsdp");
  const bool deepspeed = settings.is_on("use_deepspeed");
  export_cpu(variables);
  if (lower(settings.text("mixed_precision")) == "fp8") export_fp8(variables);
  if (fsdp) export_fsdp(variables);
  if (deepspeed) export_deepspeed(variables, kind);
  if (settings.is_on("use_megatron_lm")) {
    variables.set("ACCELERATE_USE_MEGATRON_LM", "true");
    variables.set_group(FlagGroup::megatron);
  }
  if (settings.is_on("use_parallelism_config")) export_parallelism(variables);
  return variables.take();
}

Environment rank_environment(const LaunchSettings& settings, int rank,
                             const MeetingPoint& meeting) {
  if (settings.alone) return {};
  const std::string me = std::to_string(rank);
  const std::string all = std::to_string(settings.num_processes);
  Environment environment = {
      {"RANK", me},
      {"LOCAL_RANK", me},
      {"WORLD_SIZE", all},
      {"LOCAL_WORLD_SIZE", all},
      {"GROUP_RANK", "0"},
      {"GROUP_WORLD_SIZE", "1"},
      {"ROLE_RANK", me},
      {"ROLE_WORLD_SIZE", all},
      {"ROLE_NAME", settings.text("role")},
      {"MASTER_ADDR", meeting.address},
      {"MASTER_PORT", std::to_string(meeting.port)},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RUN_ID", "none"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      // Rank 0 hosts the store. "False" rather than unset: we may run below a torchrun that said
      // True.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", env("TORCH_NCCL_ASYNC_ERROR_HANDLING").value_or("1")}};
  if (!meeting.token.empty()) environment["ACCELERATE_JOB_TOKEN"] = meeting.token;
  return environment;
}

LaunchPlan make_plan(LaunchSettings& settings, const std::vector<std::string>& program) {
  auto argv = resolve_program(program, {settings.is_on("module"), settings.is_on("no_python")});
  LaunchPlan plan =
      make_plan(settings, may_run_python(argv) ? ProgramKind::python : ProgramKind::native);
  plan.argv = std::move(argv);
  return plan;
}

LaunchPlan make_plan(LaunchSettings& settings, ProgramKind kind) {
  LaunchPlan plan;
  plan.grace_period = grace_period(settings);
  plan.shared = shared_environment(settings, kind);
  tell_of_overruled_variables(plan.shared, settings);
  const MeetingPoint meeting = settings.alone ? MeetingPoint{} : choose_meeting_point(settings);
  plan.cores = settings.cores;
  for (int rank = 0; rank < settings.num_processes; ++rank) {
    plan.ranks.push_back(rank_environment(settings, rank, meeting));
    if (settings.cores.empty()) continue;
    const CoreShare& share = settings.cores[static_cast<std::size_t>(rank)];
    plan.ranks.back()["ACCELERATE_CPU_CORES"] = cpu_list_text(share.cpus);
  }
  return plan;
}

}  // namespace accelerate
