// What a launch tells about values that change nothing, and about defaults.
#include <algorithm>
#include <string_view>
#include <tuple>

#include "accelerate/base/text.h"
#include "accelerate/launch/settings.h"

namespace accelerate::detail {
namespace {

using Texts = std::vector<std::string>;

void append(Texts& texts, const Texts& more) {
  texts.insert(texts.end(), more.begin(), more.end());
}

// Says that `names` have no effect, and where; nothing if there are no names.
Texts idle(const Texts& names, const std::string& end) {
  if (names.empty()) return {};
  return {join(names, ", ") + (names.size() == 1 ? " has" : " have") + " no effect " + end};
}

Texts retired_keys(const LaunchRequest& request) {
  Texts warnings;
  for (const RetiredKey& key : request.retired)
    warnings.push_back(describe(key) + " in " + request.config_file.string() +
                       ", and has no effect. `accelerate config update` removes it.");
  return warnings;
}

Texts idle_flags(const LaunchRequest& request, const LaunchOptions& settings) {
  Texts warnings;
  for (const Mode& mode : launch_modes()) {
    if (settings.counts(mode.group)) continue;
    Texts names;
    for (const auto& [name, value] : request.flags) {
      const Flag* flag = find_flag(name);
      if (flag != nullptr && flag->group == mode.group) names.push_back("--" + name);
    }
    const bool is_switch = find_flag(mode.flag)->kind == FlagKind::toggle;
    append(warnings, idle(names, "without --" + std::string(mode.flag) +
                                     (is_switch ? "." : " " + std::string(mode.value) + ".")));
  }
  return warnings;
}

Texts idle_sections(const LaunchRequest& request, const LaunchOptions& settings) {
  if (!request.config || request.chooses_mode())
    return {};  // A flag chose another mode on purpose.
  Texts warnings;
  const auto texts = config_texts(*request.config);
  for (const Mode& mode : launch_modes()) {
    const bool is_there = std::ranges::any_of(config_keys(), [&](const ConfigKey& key) {
      return key.section == mode.section && texts.contains(key.name);
    });
    if (is_there && !settings.counts(mode.group))
      append(warnings,
             idle({request.where(mode.section)}, "without " + std::string(mode.in_file) + "."));
  }
  return warnings;
}

// A flag that chose another mode than the file's leaves its section idle on purpose. But a loop may
// rely on these keys of it, and nothing else would clip or accumulate.
Texts idle_loop_keys(const LaunchRequest& request, const LaunchOptions& settings) {
  if (!request.config || !request.chooses_mode()) return {};
  Texts warnings;
  const std::tuple<const char*, double, FlagGroup> keys[] = {
      {"gradient_clipping", 0, FlagGroup::deepspeed},
      {"gradient_accumulation_steps", 1, FlagGroup::deepspeed},
      {"megatron_lm_gradient_clipping", 0, FlagGroup::megatron}};
  for (const auto& [name, idle_value, group] : keys) {
    const auto number = parse_double(config_key_text(*request.config, name).value_or(""));
    if (!number || *number == idle_value || settings.counts(group) || request.flags.contains(name))
      continue;
    const auto mode = std::ranges::find(launch_modes(), group, &Mode::group);
    append(warnings, idle({request.where(name)},
                          "without " + std::string(mode->in_file) + ": the program has to do it."));
  }
  return warnings;
}

// Warns of the other settings of torch.compile where nothing is compiled.
Texts idle_compiler(const LaunchRequest& request, const LaunchOptions& settings) {
  const auto backend = lower(settings.text("dynamo_backend"));
  if (!backend.empty() && backend != "no") return {};
  Texts names;
  for (const char* name : {"dynamo_mode", "dynamo_use_dynamic", "dynamo_use_fullgraph",
                           "dynamo_use_regional_compilation"}) {
    if (!is_default(*find_flag(name), settings.text(name))) names.push_back(request.where(name));
  }
  return idle(names, "without a dynamo_backend.");
}

// Warns of what is accepted only because the original has it. Defaults do not count, because
// `accelerate config` writes them into every file.
Texts what_has_no_effect(const LaunchRequest& request, const LaunchOptions& settings) {
  Texts names;
  for (const auto& flag : launch_flags()) {
    const auto given = request.flags.find(flag.name);
    if (flag.status == FlagStatus::no_effect && given != request.flags.end() &&
        !is_default(flag, given->second))
      names.push_back("--" + flag.name);
  }
  for (const char* name : {"main_training_function", "tpu_name", "tpu_zone", "tpu_vm", "tpu_env",
                           "tpu_use_cluster", "commands", "command_file", "mpirun_ccl"}) {
    const Setting* setting = settings.asked(name);
    if (setting == nullptr || setting->source != Setting::Source::file) continue;
    const std::string& text = setting->text;
    if (!text.empty() && text != "main" && text != "false") names.push_back(setting->where);
  }
  return idle(names, "here.");
}

// A user who names neither a file nor a number of ranks may not know what they get.
Texts defaults_that_apply(const LaunchRequest& request, const LaunchOptions& settings) {
  if (request.config || settings.asked("num_processes") != nullptr || !settings.task.empty())
    return {};
  std::string block =
      "neither a configuration file nor --num_processes was given, so these defaults apply:\n"
      "  --num_processes " +
      std::to_string(settings.num_processes) +
      (settings.on_cpu ? "  (on the CPU)" : "  (one a GPU)");
  if (settings.threads_per_process > 1)
    block += "\n  --num_cpu_threads_per_process " + std::to_string(settings.threads_per_process);
  return {block +
          "\nTo silence this note pass --num_processes, or write a file with "
          "`accelerate config default`."};
}

}  // namespace

std::vector<std::string> advice(const LaunchRequest& request, const LaunchOptions& settings) {
  Texts warnings;
  for (const Texts& more :
       {retired_keys(request), idle_flags(request, settings), idle_sections(request, settings),
        idle_loop_keys(request, settings), idle_compiler(request, settings),
        what_has_no_effect(request, settings), defaults_that_apply(request, settings)})
    append(warnings, more);
  return warnings;
}

}  // namespace accelerate::detail
