// Merges flags, file and defaults, and refuses what contradicts itself or is not built.
#include "accelerate/launch/settings.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/flags.h"

namespace accelerate {
namespace {

using detail::is_default;
using detail::mode_was_given;
using detail::where;

// More ranks than this on one machine is a typing error, not a plan.
constexpr std::int64_t kMostProcesses = 4096;

const std::set<std::string>& names_of_config_keys() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const auto& key : config_keys()) all.insert(key.name);
    return all;
  }();
  return names;
}

// Notes what was asked for, before defaults are added.
void note_origins(const LaunchRequest& request, LaunchSettings& settings) {
  for (const auto& [name, value] : settings.values)
    settings.asked[name] = {where(request, name), !request.flags.contains(name)};
  if (!settings.use_cpu || request.flags.contains("cpu")) return;
  settings.asked["cpu"] = {where(request, request.config->use_cpu ? "use_cpu" : "distributed_type"),
                           true};
}

void check_exclusive_flags(const LaunchRequest& request) {
  std::vector<std::string> given;
  for (const char* name : {"cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp"}) {
    if (request.flags.contains(name)) given.push_back("--" + std::string(name));
  }
  if (given.size() > 1) {
    throw ConfigError(join(given, " and ") +
                      " exclude each other: use one of --cpu, --multi_gpu, --use_deepspeed, "
                      "--use_fsdp.");
  }
  if (request.flags.contains("enable_cpu_affinity") && request.flags.contains("no_cpu_affinity")) {
    throw ConfigError(
        "--enable_cpu_affinity and --no_cpu_affinity exclude each other: leave out the one that "
        "you do not mean.");
  }
}

// Writes a file's booleans as upstream's Python does, for flags that take words.
std::string python_words(const std::string& text) {
  std::vector<std::string> words = split(text, ',');
  for (auto& word : words) {
    if (word == "true") word = "True";
    if (word == "false") word = "False";
  }
  return join(words, ",");
}

// Returns the value of a key as the ranks are told it.
std::string text_of_key(const Flag& flag, const std::string& text, const std::string& where) {
  const bool takes_words = flag.kind == FlagKind::bits ||
                           (flag.group == FlagGroup::megatron && flag.kind == FlagKind::text);
  if (takes_words) return python_words(text);
  if (flag.kind == FlagKind::choice) return text;  // The key may allow more than the flag does.
  return checked_value(flag, text, where);
}

// Takes from the file what the command line left out. Flags and keys share their names, also at the
// top level.
void take_from_file(const LaunchRequest& request, LaunchSettings& settings) {
  for (const auto& flag : launch_flags()) {
    if (settings.has(flag.name) || !names_of_config_keys().contains(flag.name)) continue;
    const auto text = config_key_text(*request.config, flag.name);
    if (!text) continue;
    settings.values[flag.name] = text_of_key(flag, *text, where(request, flag.name));
  }
}

[[noreturn]] void refuse_type(const LaunchRequest& request) {
  throw ConfigError("distributed_type in " + request.config_file.string() + " is " +
                    std::string(to_string(request.config->distributed_type)) +
                    "; this version launches on CPUs and NVIDIA GPUs: NO, MULTI_CPU, MULTI_GPU, "
                    "FSDP, DEEPSPEED and MEGATRON_LM.");
}

// Takes the mode from the file's distributed_type when no mode flag was given.
void take_mode_from_file(const LaunchRequest& request, LaunchSettings& settings) {
  if (mode_was_given(request)) return;
  const auto& config = *request.config;
  switch (config.distributed_type) {
    case DistributedType::NO:
      break;
    case DistributedType::MULTI_CPU:
      settings.use_cpu = true;
      break;
    case DistributedType::MULTI_GPU:
      settings.values["multi_gpu"] = "True";
      break;
    case DistributedType::FSDP:
      settings.values["use_fsdp"] = "True";
      break;
    case DistributedType::DEEPSPEED:
      settings.values["use_deepspeed"] = "True";
      break;
    case DistributedType::MEGATRON_LM:
      settings.values["use_megatron_lm"] = "True";
      break;
    default:
      refuse_type(request);
  }
  if (config.parallelism_config != ParallelismConfig{}) {
    settings.values["use_parallelism_config"] = "True";
  }
}

void take_what_only_a_file_says(const LaunchRequest& request, LaunchSettings& settings) {
  const auto& config = *request.config;
  for (const char* name : {"fsdp_ignored_modules", "fp8_use_mxfp8_block_scaling"}) {
    if (auto text = config_key_text(config, name)) settings.file_only[name] = *text;
  }
  for (const auto& key : config_keys()) {
    if (key.section == "deepspeed_config" && config_key_text(config, key.name)) {
      settings.deepspeed_file_fields.push_back(key.name);
    }
  }
  std::ranges::sort(settings.deepspeed_file_fields);
  if (config.mixed_precision && !request.flags.contains("mixed_precision")) {
    settings.deepspeed_file_fields.push_back("mixed_precision");
  }
}

void take_file(const LaunchRequest& request, LaunchSettings& settings) {
  const auto& config = *request.config;
  if (config.compute_environment != ComputeEnvironment::LOCAL_MACHINE) {
    throw ConfigError("compute_environment in " + request.config_file.string() + " is " +
                      std::string(to_string(config.compute_environment)) +
                      "; this version launches on this machine: LOCAL_MACHINE.");
  }
  take_mode_from_file(request, settings);
  take_from_file(request, settings);
  take_what_only_a_file_says(request, settings);
  settings.use_cpu |= config.use_cpu;
  if (config.debug) settings.values["debug"] = "True";
  if (!request.flags.contains("num_processes") && config.num_processes == -1) {
    throw ConfigError(request.config_file.string() +
                      " leaves num_processes to the command line: pass --num_processes N.");
  }
}

void take_defaults(LaunchSettings& settings) {
  for (const auto& flag : launch_flags()) {
    if (settings.has(flag.name) || flag.fallback.empty()) continue;
    settings.values[flag.name] =
        flag.kind == FlagKind::bit ? checked_value(flag, flag.fallback, flag.name) : flag.fallback;
  }
}

bool is_one_machine(const LaunchSettings& settings) {
  return is_default(*find_flag("num_machines"), settings.text("num_machines"));
}

// Whether the value would matter on several machines or on TPUs, neither of which the file asks
// for. Files keep such keys when they are taken from elsewhere, so they are told, not refused.
bool is_left_over(const Flag& flag, const LaunchRequest& request, const LaunchSettings& settings) {
  if (flag.name == "deepspeed_multinode_launcher") return is_one_machine(settings);
  if (request.flags.contains(flag.name) || flag.name == "num_machines") return false;
  return flag.status == FlagStatus::not_applicable || is_one_machine(settings);
}

// Ways to find machines that change nothing on one, and that many files name.
bool is_harmless(const Flag& flag, const std::string& value) {
  return (flag.name == "rdzv_backend" && lower(value) == "c10d") ||
         (flag.name == "deepspeed_multinode_launcher" && lower(value) == "standard");
}

void tell_left_over(const std::vector<std::string>& names, const char* where_it_counts,
                    LaunchSettings& settings) {
  if (names.empty()) return;
  settings.warnings.push_back(join(names, ", ") + (names.size() == 1 ? " has" : " have") +
                              " no effect " + where_it_counts + ".");
}

void refuse_what_is_not_built(const LaunchRequest& request, LaunchSettings& settings) {
  std::vector<std::string> of_machines, of_tpus;
  for (const auto& flag : launch_flags()) {
    const std::string value = settings.text(flag.name);
    const bool refused =
        flag.status == FlagStatus::later || flag.status == FlagStatus::not_applicable;
    if (!refused || is_default(flag, value)) continue;
    if (is_harmless(flag, value) && is_one_machine(settings)) continue;
    if (is_left_over(flag, request, settings)) {
      (flag.status == FlagStatus::later ? of_machines : of_tpus)
          .push_back(where(request, flag.name));
      continue;
    }
    throw ConfigError(where(request, flag.name) + " is '" + settings.text(flag.name) + "'; " +
                      (flag.status == FlagStatus::later
                           ? "what it asks for comes in a later version. Leave it out for now."
                           : "this project serves CPUs and NVIDIA GPUs of your own machines, so "
                             "there is nothing it could do. Leave it out."));
  }
  tell_left_over(of_machines, "on one machine", settings);
  tell_left_over(of_tpus, "without TPUs", settings);
}

// Returns an integer setting that must lie within `range`; nullopt when it has no value.
std::optional<int> ranged(const LaunchRequest& request, const LaunchSettings& settings,
                          const std::string& name, std::pair<std::int64_t, std::int64_t> range) {
  const auto value = parse_int(settings.text(name));
  if (!value) return std::nullopt;
  if (*value < range.first || *value > range.second) {
    throw ConfigError(where(request, name) + " is '" + settings.text(name) +
                      "'; it must lie between " + std::to_string(range.first) + " and " +
                      std::to_string(range.second) + ".");
  }
  return static_cast<int>(*value);
}

void choose_processes(const LaunchRequest& request, const Machine& machine,
                      LaunchSettings& settings) {
  const auto ids = parse_gpu_ids(settings.text("gpu_ids"), where(request, "gpu_ids"));
  const int gpus = ids.empty() ? machine.gpus : static_cast<int>(ids.size());
  settings.on_cpu = settings.use_cpu || machine.gpus == 0;
  const auto asked = ranged(request, settings, "num_processes", {1, kMostProcesses});
  settings.num_processes = asked.value_or(settings.on_cpu ? 1 : std::max(gpus, 1));
  if (request.flags.contains("multi_gpu") && asked && *asked < 2) {
    throw ConfigError("--multi_gpu needs at least 2 processes, and --num_processes is '" +
                      settings.text("num_processes") + "'.");
  }
  if (settings.is_on("multi_gpu") && ids.size() == 1) {
    throw ConfigError(where(request, "gpu_ids") + " names one GPU, '" + ids[0] +
                      "', yet training is to use several: name at least two, or write all.");
  }
  // Upstream calls this multi_gpu too, when nothing else was said.
  if (!request.config && !settings.on_cpu && settings.num_processes > 1) {
    settings.values["multi_gpu"] = "True";
  }
  if (!settings.on_cpu && settings.num_processes > gpus) {
    settings.warnings.push_back(
        std::to_string(settings.num_processes) + " ranks share " + std::to_string(gpus) +
        " GPU(s). NCCL refuses two ranks on one GPU; use fewer ranks or --cpu.");
  }
  if (settings.is_on("multi_gpu") && settings.on_cpu) {
    settings.warnings.push_back(
        "there is no GPU to be seen on this machine: the ranks train on the CPU.");
  }
}

// Returns what was asked for. A flag wins over the file, the file over ACCELERATE_CPU_AFFINITY. A
// false in the file says nothing: the original's questionnaire writes it into every file.
std::optional<bool> asked_affinity(const LaunchSettings& settings) {
  if (settings.is_on("no_cpu_affinity")) return false;
  if (settings.is_on("enable_cpu_affinity")) return true;
  if (!env("ACCELERATE_CPU_AFFINITY")) return std::nullopt;
  return env_flag("ACCELERATE_CPU_AFFINITY", false);
}

// Says why ranks are not bound; "" when they are to be bound.
std::string reason_not_to_bind(const Machine& machine, const LaunchSettings& settings) {
  const auto asked = asked_affinity(settings);
  if (asked == false) return "that was asked for";
  if (!settings.on_cpu) return asked ? "each binds itself to those near its GPU" : "they use GPUs";
  if (settings.num_processes == 1) return "there is one";
  if (!asked && environment_names_cores()) return "the environment names cores for OpenMP";
  if (machine.layout.empty()) return "the system does not say where its cores are";
  const auto cores = std::min(machine.cores, static_cast<int>(machine.layout.size()));
  if (settings.num_processes <= cores) return "";
  return std::to_string(settings.num_processes) + " ranks on " + std::to_string(cores) +
         (cores == 1 ? " core" : " cores") + " would wait for each other";
}

// On GPUs the ranks bind themselves when asked to, because only they know which GPU they take.
void choose_cores(const Machine& machine, LaunchSettings& settings) {
  const std::string reason = reason_not_to_bind(machine, settings);
  if (!reason.empty()) {
    const bool surprising =
        settings.on_cpu && asked_affinity(settings).value_or(false) && settings.num_processes > 1;
    (surprising ? settings.warnings : settings.notes)
        .push_back("ranks are not bound to cores: " + reason);
    return;
  }
  settings.cores = divide_cores(machine.layout, settings.num_processes);
  for (std::size_t rank = 0; rank < settings.cores.size(); ++rank) {
    settings.notes.push_back("rank " + std::to_string(rank) + " keeps to " +
                             to_string(settings.cores[rank]));
  }
}

// The threads of each rank when nobody sets them: its bound cores, or its part of all cores.
std::int64_t default_threads(const Machine& machine, const LaunchSettings& settings) {
  if (!settings.on_cpu) return 1;
  const std::int64_t part = machine.cores / settings.num_processes;
  return settings.cores.empty() ? part : std::min<std::int64_t>(part, fewest_cores(settings.cores));
}

void choose_threads(const LaunchRequest& request, const Machine& machine,
                    LaunchSettings& settings) {
  const auto asked = ranged(request, settings, "num_cpu_threads_per_process", {1, 65536});
  const auto outer = openmp_threads();
  settings.threads_per_process = asked.value_or(static_cast<int>(
      std::max<std::int64_t>(outer.value_or(default_threads(machine, settings)), 1)));
}

// Refuses before the start what the ranks would refuse. A flag takes the same values as its key in
// a file.
void check_words_of_sharding(const LaunchRequest& request, const LaunchSettings& settings) {
  ClusterConfig scratch;
  for (const auto& [name, text] : request.flags) {
    const Flag* flag = find_flag(name);
    const bool counts = flag != nullptr && names_of_config_keys().contains(name) &&
                        ((flag->group == FlagGroup::fsdp && settings.is_on("use_fsdp")) ||
                         (flag->group == FlagGroup::deepspeed && settings.is_on("use_deepspeed")));
    if (counts) set_config_key(scratch, name, text, "--" + name);
  }
}

void check_fsdp(const LaunchRequest& request, const LaunchSettings& settings) {
  if (request.flags.contains("use_parallelism_config") &&
      (!settings.is_on("use_fsdp") || settings.text("fsdp_version") != "2")) {
    throw ConfigError("--use_parallelism_config needs --use_fsdp and --fsdp_version 2.");
  }
  // In version 2 fsdp_cpu_ram_efficient_loading decides both.
  if (settings.is_on("use_fsdp") && settings.text("fsdp_version") != "2" &&
      settings.is_on("fsdp_cpu_ram_efficient_loading") &&
      !settings.is_on("fsdp_sync_module_states")) {
    throw ConfigError(
        where(request, "fsdp_sync_module_states") +
        " is off while fsdp_cpu_ram_efficient_loading is on: then only rank 0 has "
        "weights, and nobody else would get them. Switch the one on or the other off.");
  }
}

}  // namespace

LaunchSettings merge_settings(const LaunchRequest& request, const Machine& machine) {
  check_exclusive_flags(request);
  LaunchSettings settings;
  settings.values = request.flags;
  settings.use_cpu = request.flags.contains("cpu");
  if (request.config) take_file(request, settings);
  note_origins(request, settings);
  take_defaults(settings);
  refuse_what_is_not_built(request, settings);
  choose_processes(request, machine, settings);
  choose_cores(machine, settings);
  choose_threads(request, machine, settings);
  (void)ranged(request, settings, "main_process_port", {0, 65535});
  check_words_of_sharding(request, settings);
  check_fsdp(request, settings);
  const auto modes = {"multi_gpu", "use_fsdp", "use_deepspeed", "use_megatron_lm"};
  settings.alone = settings.num_processes == 1 &&
                   std::ranges::none_of(modes, [&](const char* m) { return settings.is_on(m); });
  detail::advise(request, settings);
  return settings;
}

}  // namespace accelerate
