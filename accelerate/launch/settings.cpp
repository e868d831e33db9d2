#include "accelerate/launch/settings.h"

#include <algorithm>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/machine/topology.h"
#include "accelerate/base/text.h"

namespace accelerate {

std::string LaunchRequest::where(const std::string& name) const {
  if (flags.contains(name) || !config) return "--" + name;
  return "'" + name + "' in " + config_file.string();
}

bool LaunchRequest::chooses_mode() const {
  const auto names = {"multi_gpu",     "tpu",      "tpu_cluster",
                      "use_deepspeed", "use_fsdp", "use_megatron_lm"};
  return std::ranges::any_of(names, [&](const char* name) { return flags.contains(name); });
}

bool LaunchRequest::says_all_of_machines() const {
  const auto machines = flags.find("num_machines");
  if (machines == flags.end()) return false;
  return machines->second == "1" ||
         (flags.contains("machine_rank") && flags.contains("main_process_ip"));
}

const Setting* LaunchOptions::asked(const std::string& name) const {
  const auto found = values.find(name);
  const bool is_asked = found != values.end() && found->second.source != Setting::Source::fallback;
  return is_asked ? &found->second : nullptr;
}

std::string LaunchOptions::text(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second.text;
}

bool LaunchOptions::is_on(const std::string& name) const {
  return parse_bool(text(name)).value_or(false);
}

bool LaunchOptions::counts(FlagGroup group) const {
  const auto mode = std::ranges::find(launch_modes(), group, &Mode::group);
  return mode == launch_modes().end() || lower(text(mode->flag)) == lower(mode->value);
}

Machine this_machine() {
  Machine machine{.gpus = gpu_count(), .cores = physical_cores()};
  if (const auto allowed = allowed_cpus()) machine.layout = cpu_cores({}, allowed);
  return machine;
}

std::vector<std::string> parse_gpu_ids(const std::string& text, const std::string& where) {
  if (text.empty() || lower(text) == "all") return {};
  std::vector<std::string> ids;
  for (const auto& part : split(text, ',')) {
    const std::string id(trim(part));
    const bool plausible =
        parse_int(id).value_or(-1) >= 0 || id.starts_with("GPU-") || id.starts_with("MIG-");
    if (!plausible || std::ranges::find(ids, id) != ids.end()) {
      throw ConfigError(where + " is '" + text + "', where '" + id +
                        "' is not the id of a GPU or appears twice; write all, or ids such as "
                        "0,2,3.");
    }
    ids.push_back(id);
  }
  return ids;
}

LaunchRequest read_request(std::map<std::string, std::string> flags) {
  LaunchRequest request;
  request.flags = std::move(flags);
  const auto named = request.flags.find("config_file");
  if (named != request.flags.end()) {
    request.config_file = named_config_file(named->second);
  } else if (!request.flags.contains("cpu") && std::filesystem::exists(default_config_file())) {
    request.config_file = default_config_file();
  }
  if (!request.config_file.empty())
    request.config = load_cluster_config(request.config_file, &request.retired);
  return request;
}

std::string detail::where_said(const LaunchRequest& request, const LaunchOptions& settings,
                               const std::string& name) {
  const Setting* setting = settings.asked(name);
  const bool is_scheduled = setting != nullptr && setting->source == Setting::Source::scheduler;
  return is_scheduled ? setting->where : request.where(name);
}

std::optional<int> detail::ranged(const LaunchRequest& request, const LaunchOptions& settings,
                                  const std::string& name,
                                  std::pair<std::int64_t, std::int64_t> range) {
  const auto value = parse_int(settings.text(name));
  if (!value) return std::nullopt;
  if (*value >= range.first && *value <= range.second) return static_cast<int>(*value);
  throw ConfigError(where_said(request, settings, name) + " is '" + settings.text(name) +
                    "'; it must lie between " + std::to_string(range.first) + " and " +
                    std::to_string(range.second) + ".");
}

}  // namespace accelerate
