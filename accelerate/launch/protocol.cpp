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

void export_group(FlagGroup group, const LaunchSettings& settings, Environment& environment) {
  for (const auto& flag : launch_flags()) {
    if (flag.group != group || flag.status != FlagStatus::carried || !settings.has(flag.name)) {
      continue;
    }
    environment[variable_of(flag)] = value_of(flag, settings.text(flag.name));
  }
}

void export_common(const LaunchSettings& settings, Environment& environment) {
  const std::string precision = settings.text("mixed_precision");
  environment["ACCELERATE_MIXED_PRECISION"] = precision.empty() ? "no" : lower(precision);
  const std::string backend = settings.text("dynamo_backend");
  environment["ACCELERATE_DYNAMO_BACKEND"] = backend.empty() ? "NO" : upper(backend);
  for (const char* name : {"dynamo_mode", "dynamo_use_fullgraph", "dynamo_use_dynamic",
                           "dynamo_use_regional_compilation"}) {
    environment["ACCELERATE_" + upper(name)] = settings.text(name);
  }
  environment["OMP_NUM_THREADS"] = std::to_string(settings.threads_per_process);
  if (settings.is_on("debug")) environment["ACCELERATE_DEBUG_MODE"] = "true";
  if (settings.is_on("enable_cpu_affinity")) environment["ACCELERATE_CPU_AFFINITY"] = "1";
  if (settings.is_on("no_cpu_affinity")) environment["ACCELERATE_CPU_AFFINITY"] = "0";
  const std::string gpus = settings.text("gpu_ids");
  if (!gpus.empty() && lower(gpus) != "all") environment["CUDA_VISIBLE_DEVICES"] = gpus;
}

// KMP_AFFINITY=compact packs threads from the first core on: right for one process, and the worst
// choice for several, which would all sit on the same cores.
void export_cpu(const LaunchSettings& settings, Environment& environment) {
  environment["ACCELERATE_USE_CPU"] = settings.use_cpu ? "True" : "False";
  if (!settings.use_cpu) return;
  environment["KMP_BLOCKTIME"] = "1";
  if (settings.num_processes == 1) environment["KMP_AFFINITY"] = "granularity=fine,compact,1,0";
}

void export_fsdp(const LaunchSettings& settings, Environment& environment) {
  environment["ACCELERATE_USE_FSDP"] = "true";
  export_group(FlagGroup::fsdp, settings, environment);
  const auto ignored = settings.file_only.find("fsdp_ignored_modules");
  if (ignored != settings.file_only.end()) environment["FSDP_IGNORED_MODULES"] = ignored->second;
}

void export_deepspeed(const LaunchSettings& settings, Environment& environment) {
  environment["ACCELERATE_USE_DEEPSPEED"] = "true";
  environment["ACCELERATE_CONFIG_DS_FIELDS"] = lower(join(settings.deepspeed_file_fields, ","));
  export_group(FlagGroup::deepspeed, settings, environment);
  const auto path = env("PYTHONPATH");
  const std::string here = std::filesystem::current_path();
  environment["PYTHONPATH"] = path ? *path + ":" + here : here;
}

void export_parallelism(const LaunchSettings& settings, Environment& environment) {
  environment["ACCELERATE_USE_PARALLELISM_CONFIG"] = "true";
  export_group(FlagGroup::parallelism, settings, environment);
  if (settings.text("parallelism_config_cp_size") == "1") {
    environment.erase("PARALLELISM_CONFIG_CP_COMM_STRATEGY");
  }
  const bool sequences = settings.text("parallelism_config_sp_size") != "1";
  for (const char* name : {"SEQ_LENGTH", "SEQ_LENGTH_IS_VARIABLE", "ATTN_IMPLEMENTATION"}) {
    const std::string variable = std::string("PARALLELISM_CONFIG_SP_") + name;
    if (!sequences) {
      environment.erase(variable);
    } else {
      environment.try_emplace(variable, "None");
    }
  }
}

void export_fp8(const LaunchSettings& settings, Environment& environment) {
  export_group(FlagGroup::fp8, settings, environment);
  environment.erase("ACCELERATE_FP8_OVERRIDE_LINEAR_PRECISION");
  const auto scaling = settings.file_only.find("fp8_use_mxfp8_block_scaling");
  if (scaling != settings.file_only.end()) {
    environment["ACCELERATE_FP8_USE_MXFP8_BLOCK_SCALING"] =
        parse_bool(scaling->second).value_or(false) ? "True" : "False";
  }
  const auto parts = split(settings.text("fp8_override_linear_precision"), ',');
  const std::vector<std::string> names = {"FPROP", "DGRAD", "WGRAD"};
  for (std::size_t i = 0; i < names.size() && i < parts.size(); ++i) {
    environment["ACCELERATE_FP8_OVERRIDE_" + names[i]] = parts[i];
  }
}

// Makes a fresh token for each launch. So no other job of the machine has it, not even one that was
// started from the same shell.
std::string new_token() {
  if (auto token = random_digits()) return *token;
  throw LaunchError("the system gives no random bits (getrandom) for the token of the job");
}

MeetingPoint choose_meeting_point(LaunchSettings& settings) {
  MeetingPoint meeting{.token = new_token()};
  if (settings.has("main_process_ip")) meeting.address = settings.text("main_process_ip");
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

Environment shared_environment(const LaunchSettings& settings) {
  Environment environment;
  export_common(settings, environment);
  const bool fsdp = settings.is_on("use_fsdp");
  const bool deepspeed = settings.is_on("use_deepspeed");
  const bool megatron = settings.is_on("use_megatron_lm");
  const bool torchrun_like = fsdp || deepspeed || megatron || settings.is_on("multi_gpu");
  if (!torchrun_like || settings.use_cpu) export_cpu(settings, environment);
  if (lower(settings.text("mixed_precision")) == "fp8") export_fp8(settings, environment);
  if (fsdp) export_fsdp(settings, environment);
  if (deepspeed) export_deepspeed(settings, environment);
  if (megatron) {
    environment["ACCELERATE_USE_MEGATRON_LM"] = "true";
    export_group(FlagGroup::megatron, settings, environment);
  }
  if (settings.is_on("use_parallelism_config")) export_parallelism(settings, environment);
  return environment;
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
  LaunchPlan plan = make_plan(settings);
  plan.argv = std::move(argv);
  return plan;
}

LaunchPlan make_plan(LaunchSettings& settings) {
  LaunchPlan plan;
  plan.grace_period = grace_period(settings);
  plan.shared = shared_environment(settings);
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
