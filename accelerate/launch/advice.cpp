#include "accelerate/launch/settings.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

// A mode, and the group of flags that has no effect while the mode is off.
struct ModeOfFlags {
  FlagGroup group;
  const char* needs;
  bool is_on;
};

// Says that `names` have no effect without `mode`.
std::string idle(const std::vector<std::string>& names, const std::string& mode) {
  return join(names, ", ") + (names.size() == 1 ? " has" : " have") + " no effect without " + mode;
}

void warn_of_retired_keys(const LaunchRequest& request, LaunchSettings& settings) {
  for (const RetiredKey& key : request.retired)
    settings.warnings.push_back(describe(key) + " in " + request.config_file.string() +
                                ", and has no effect. `accelerate config update` removes it.");
}

void warn_of_idle_flags(const LaunchRequest& request, LaunchSettings& settings) {
  const ModeOfFlags modes[] = {
      {FlagGroup::fsdp, "--use_fsdp", settings.is_on("use_fsdp")},
      {FlagGroup::deepspeed, "--use_deepspeed", settings.is_on("use_deepspeed")},
      {FlagGroup::megatron, "--use_megatron_lm", settings.is_on("use_megatron_lm")},
      {FlagGroup::parallelism, "--use_parallelism_config",
       settings.is_on("use_parallelism_config")},
      {FlagGroup::fp8, "--mixed_precision fp8", lower(settings.text("mixed_precision")) == "fp8"}};
  for (const auto& mode : modes) {
    std::vector<std::string> names;
    for (const auto& [name, value] : request.flags) {
      const Flag* flag = find_flag(name);
      if (flag != nullptr && flag->group == mode.group) names.push_back("--" + name);
    }
    if (!mode.is_on && !names.empty()) settings.warnings.push_back(idle(names, mode.needs) + ".");
  }
}

void warn_of_idle_sections(const LaunchRequest& request, LaunchSettings& settings) {
  if (!request.config || mode_was_given(request)) return;  // A flag chose another mode on purpose.
  const std::tuple<const char*, const char*, bool> sections[] = {
      {"fsdp_config", "distributed_type FSDP", settings.is_on("use_fsdp")},
      {"deepspeed_config", "distributed_type DEEPSPEED", settings.is_on("use_deepspeed")},
      {"megatron_lm_config", "distributed_type MEGATRON_LM", settings.is_on("use_megatron_lm")},
      {"fp8_config", "mixed_precision fp8", lower(settings.text("mixed_precision")) == "fp8"}};
  for (const auto& [section, mode, is_on] : sections) {
    const bool is_there = std::ranges::any_of(config_keys(), [&](const ConfigKey& key) {
      return key.section == section && config_key_text(*request.config, key.name);
    });
    if (is_there && !is_on)
      settings.warnings.push_back(
          idle({"'" + std::string(section) + "' in " + request.config_file.string()}, mode) + ".");
  }
}

// A flag that chose another mode than the file's leaves its section idle on purpose. But a loop may
// rely on these keys of it, and nothing else would clip or accumulate.
void warn_of_idle_loop_keys(const LaunchRequest& request, LaunchSettings& settings) {
  if (!request.config || !mode_was_given(request)) return;
  const std::tuple<const char*, const char*, const char*> keys[] = {
      {"gradient_clipping", "use_deepspeed", "distributed_type DEEPSPEED"},
      {"gradient_accumulation_steps", "use_deepspeed", "distributed_type DEEPSPEED"},
      {"megatron_lm_gradient_clipping", "use_megatron_lm", "distributed_type MEGATRON_LM"}};
  for (const auto& [name, mode, needs] : keys) {
    const std::string text = config_key_text(*request.config, name).value_or("");
    const auto number = parse_double(text);
    const double idle_value = std::string_view(name).ends_with("steps") ? 1 : 0;
    if (!number || *number == idle_value || settings.is_on(mode) || request.flags.contains(name))
      continue;
    settings.warnings.push_back(idle({where(request, name)}, needs) +
                                ": the program has to do it.");
  }
}

// Warns of the other settings of torch.compile where nothing is compiled.
void warn_of_idle_compiler(const LaunchRequest& request, LaunchSettings& settings) {
  const auto backend = lower(settings.text("dynamo_backend"));
  if (!backend.empty() && backend != "no") return;
  std::vector<std::string> names;
  for (const char* name : {"dynamo_mode", "dynamo_use_dynamic", "dynamo_use_fullgraph",
                           "dynamo_use_regional_compilation"}) {
    const Flag& flag = *find_flag(name);
    if (!is_default(flag, settings.text(name))) names.push_back(where(request, name));
  }
  if (!names.empty()) settings.warnings.push_back(idle(names, "a dynamo_backend") + ".");
}

// Warns of what is accepted only because the original has it. Defaults do not count, because
// `accelerate config` writes them into every file.
void warn_of_what_has_no_effect(const LaunchRequest& request, LaunchSettings& settings) {
  std::vector<std::string> names;
  for (const auto& flag : launch_flags()) {
    const auto given = request.flags.find(flag.name);
    if (flag.status == FlagStatus::no_effect && given != request.flags.end() &&
        !is_default(flag, given->second))
      names.push_back("--" + flag.name);
  }
  for (const char* name : {"main_training_function", "tpu_name", "tpu_zone", "tpu_vm", "tpu_env",
                           "tpu_use_cluster", "commands", "command_file", "mpirun_ccl"}) {
    if (!request.config || request.flags.contains(name)) continue;
    const std::string text = config_key_text(*request.config, name).value_or("");
    if (!text.empty() && text != "main" && text != "false") names.push_back(where(request, name));
  }
  if (!names.empty())
    settings.warnings.push_back(join(names, ", ") + (names.size() == 1 ? " has" : " have") +
                                " no effect here.");
}

// A user who names neither a file nor a number of ranks may not know what they get.
void tell_defaults(const LaunchRequest& request, LaunchSettings& settings) {
  if (request.config || request.flags.contains("num_processes")) return;
  std::string block =
      "neither a configuration file nor --num_processes was given, so these defaults apply:\n"
      "  --num_processes " +
      std::to_string(settings.num_processes) +
      (settings.on_cpu ? "  (on the CPU)" : "  (one a GPU)");
  if (settings.threads_per_process > 1) {
    block += "\n  --num_cpu_threads_per_process " + std::to_string(settings.threads_per_process);
  }
  settings.warnings.push_back(block +
                              "\nTo silence this note pass --num_processes, or write a file with "
                              "`accelerate config default`.");
}

}  // namespace

std::string where(const LaunchRequest& request, const std::string& name) {
  if (request.flags.contains(name) || !request.config) return "--" + name;
  return "'" + name + "' in " + request.config_file.string();
}

bool mode_was_given(const LaunchRequest& request) {
  const auto names = {"multi_gpu",     "tpu",      "tpu_cluster",
                      "use_deepspeed", "use_fsdp", "use_megatron_lm"};
  return std::ranges::any_of(names, [&](const char* n) { return request.flags.contains(n); });
}

bool is_default(const Flag& flag, const std::string& value) {
  if (value.empty() || value == flag.fallback) return true;
  return (flag.name == "num_machines" && value == "1") ||
         (flag.name == "machine_rank" && value == "0");
}

void advise(const LaunchRequest& request, LaunchSettings& settings) {
  warn_of_retired_keys(request, settings);
  warn_of_idle_flags(request, settings);
  warn_of_idle_sections(request, settings);
  warn_of_idle_loop_keys(request, settings);
  warn_of_idle_compiler(request, settings);
  warn_of_what_has_no_effect(request, settings);
  tell_defaults(request, settings);
}

}  // namespace accelerate::detail
