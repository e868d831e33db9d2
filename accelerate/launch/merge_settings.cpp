// Merges flags, file and defaults, and refuses what contradicts itself or is not built.
#include <algorithm>
#include <set>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/flags.h"
#include "accelerate/launch/settings.h"

namespace accelerate {
namespace {

// More ranks than this on one machine is a typing error, not a plan.
constexpr std::int64_t kMostProcesses = 4096;
// Where machines meet if nobody says a port; upstream's.
constexpr int kUsualPort = 29500;

class Merge {
 public:
  Merge(const LaunchRequest& request, const Machine& machine)
      : request_(request), machine_(machine) {}

  LaunchOptions run() {
    // Who says what: each step adds only values that no earlier step has.
    refuse_flags_that_exclude_each_other();
    take_flags();
    if (request_.config) take_file();
    detail::take_from_scheduler(request_, settings_);
    take_defaults();
    detail::read_machines(request_, settings_);
    // A default is allowed even where its feature is not built, so defaults come before.
    refuse_what_is_not_built();
    detail::choose_starter(request_, settings_);
    // Ranks, then the cores that ranks divide, then the threads that fit onto a rank's cores.
    choose_processes();
    read_output();
    choose_cores();
    choose_threads();
    read_port_and_grace_period();
    // Sharding is checked last: its words matter only in a launch that is possible.
    check_words_of_sharding();
    check_fsdp();
    decide_whether_alone();
    // Advice sees all that was decided.
    for (auto& warning : detail::advice(request_, settings_)) warn(std::move(warning));
    return std::move(settings_);
  }

 private:
  using Source = Setting::Source;

  [[nodiscard]] bool is_given(const std::string& flag) const {
    return request_.flags.contains(flag);
  }
  [[nodiscard]] std::string where(const std::string& name) const {
    return detail::where_said(request_, settings_, name);
  }
  [[nodiscard]] std::string text(const std::string& name) const { return settings_.text(name); }
  [[nodiscard]] bool is_on(const std::string& name) const { return settings_.is_on(name); }
  void warn(std::string warning) { settings_.warnings.push_back(std::move(warning)); }

  // --- Flags, file, defaults -----------------------------------------------------------------

  void refuse_flags_that_exclude_each_other() const {
    std::vector<std::string> given;
    for (const char* name : {"cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp"}) {
      if (is_given(name)) given.push_back("--" + std::string(name));
    }
    if (given.size() > 1) {
      throw ConfigError(join(given, " and ") +
                        " exclude each other: use one of --cpu, --multi_gpu, --use_deepspeed, "
                        "--use_fsdp.");
    }
    if (is_given("enable_cpu_affinity") && is_given("no_cpu_affinity")) {
      throw ConfigError(
          "--enable_cpu_affinity and --no_cpu_affinity exclude each other: leave out the one that "
          "you do not mean.");
    }
  }

  void take_flags() {
    for (const auto& [name, text] : request_.flags)
      settings_.values[name] = {text, Source::flag, where(name)};
  }

  void take_file() {
    const auto& config = *request_.config;
    if (config.compute_environment != ComputeEnvironment::LOCAL_MACHINE) {
      throw ConfigError("compute_environment in " + request_.config_file.string() + " is " +
                        std::string(to_string(config.compute_environment)) +
                        "; this version launches on this machine: LOCAL_MACHINE.");
    }
    if (config.use_cpu) take_from_file("cpu", "True", "use_cpu");
    if (!request_.chooses_mode()) take_mode_from_file();
    const auto texts = config_texts(config);
    for (const auto& [key, text] : texts) {
      const Flag* flag = find_flag(key);
      if (settings_.has(key)) continue;
      take_from_file(key, flag != nullptr ? text_of_key(*flag, text, where(key)) : text, key);
    }
    for (const auto& key : config_keys()) {
      if (key.section == "deepspeed_config" && texts.contains(key.name))
        settings_.deepspeed_file_fields.push_back(key.name);
    }
    std::ranges::sort(settings_.deepspeed_file_fields);
    if (config.mixed_precision && !is_given("mixed_precision"))
      settings_.deepspeed_file_fields.push_back("mixed_precision");
    const bool is_scheduled =
        request_.scheduler && (request_.scheduler->ranks || request_.scheduler->task);
    if (!is_given("num_processes") && config.num_processes == -1 && !is_scheduled) {
      throw ConfigError(request_.config_file.string() +
                        " leaves num_processes to the command line: pass --num_processes N.");
    }
  }

  // Takes the value of a flag that was not given, because of what the file says under `key`.
  void take_from_file(const std::string& flag, const std::string& text, const std::string& key) {
    settings_.values.try_emplace(flag, text, Source::file, where(key));
  }

  void take_mode_from_file() {
    constexpr std::pair<DistributedType, const char*> kFlags[] = {
        {DistributedType::MULTI_CPU, "cpu"},
        {DistributedType::MULTI_GPU, "multi_gpu"},
        {DistributedType::FSDP, "use_fsdp"},
        {DistributedType::DEEPSPEED, "use_deepspeed"},
        {DistributedType::MEGATRON_LM, "use_megatron_lm"}};
    const auto& config = *request_.config;
    const auto type = config.distributed_type;
    const auto row = std::ranges::find(kFlags, type, [](const auto& pair) { return pair.first; });
    if (row != std::end(kFlags)) {
      take_from_file(row->second, "True", "distributed_type");
    } else if (type != DistributedType::NO) {
      throw ConfigError("distributed_type in " + request_.config_file.string() + " is " +
                        std::string(to_string(type)) +
                        "; this version launches on CPUs and NVIDIA GPUs: NO, MULTI_CPU, "
                        "MULTI_GPU, FSDP, DEEPSPEED and MEGATRON_LM.");
    }
    if (config.parallelism_config != ParallelismConfig{})
      take_from_file("use_parallelism_config", "True", "parallelism_config");
  }

  // Returns the value of a key as the ranks are told it. Flags that take words get a file's
  // booleans as upstream's Python writes them.
  static std::string text_of_key(const Flag& flag, const std::string& text,
                                 const std::string& where) {
    if (flag.kind == FlagKind::choice) return text;  // The key may allow more than the flag does.
    const bool takes_words = flag.kind == FlagKind::bits ||
                             (flag.group == FlagGroup::megatron && flag.kind == FlagKind::text);
    if (!takes_words) return checked_value(flag, text, where);
    std::vector<std::string> words = split(text, ',');
    for (auto& word : words) {
      if (word == "true") word = "True";
      if (word == "false") word = "False";
    }
    return join(words, ",");
  }

  void take_defaults() {
    for (const auto& flag : launch_flags()) {
      if (flag.fallback.empty()) continue;
      const bool is_bit = flag.kind == FlagKind::bit;
      settings_.values.try_emplace(
          flag.name, is_bit ? checked_value(flag, flag.fallback, flag.name) : flag.fallback);
    }
  }

  // --- What is not built ---------------------------------------------------------------------

  void refuse_what_is_not_built() {
    std::vector<std::string> of_machines, of_tpus;
    for (const auto& flag : launch_flags()) {
      const std::string value = text(flag.name);
      const bool comes_later = flag.status == FlagStatus::later;
      const bool refused = comes_later || flag.status == FlagStatus::not_applicable;
      if (!refused || is_default(flag, value)) continue;
      if (is_left_over(flag)) {
        (comes_later ? of_machines : of_tpus).push_back(where(flag.name));
        continue;
      }
      throw ConfigError(where(flag.name) + " is '" + value + "'; " +
                        (comes_later
                             ? "what it asks for comes in a later version. Leave it out for now."
                             : "this project serves CPUs and NVIDIA GPUs of your own machines, so "
                               "there is nothing it could do. Leave it out."));
    }
    tell_left_over(of_machines, "on one machine");
    tell_left_over(of_tpus, "without TPUs");
  }

  [[nodiscard]] bool is_one_machine() const { return settings_.num_machines == 1; }

  // Whether the value would matter on several machines or on TPUs, neither of which the file asks
  // for. Files keep such keys when they are taken from elsewhere, so they are told, not refused.
  [[nodiscard]] bool is_left_over(const Flag& flag) const {
    if (is_given(flag.name) || flag.name == "num_machines") return false;
    return flag.status == FlagStatus::not_applicable || is_one_machine();
  }

  void tell_left_over(const std::vector<std::string>& names, const char* where_it_counts) {
    if (names.empty()) return;
    warn(join(names, ", ") + (names.size() == 1 ? " has" : " have") + " no effect " +
         where_it_counts + ".");
  }

  // --- Ranks, cores, threads, port -----------------------------------------------------------

  [[nodiscard]] std::optional<int> ranged(const std::string& name,
                                          std::pair<std::int64_t, std::int64_t> range) const {
    return detail::ranged(request_, settings_, name, range);
  }

  void choose_processes() {
    const auto ids = parse_gpu_ids(text("gpu_ids"), where("gpu_ids"));
    const int gpus = ids.empty() ? granted_gpus() : static_cast<int>(ids.size());
    settings_.on_cpu = is_on("cpu") || machine_.gpus == 0;
    if (!settings_.task.empty()) return;  // One rank, which is this launcher's task.
    const auto asked = ranged("num_processes", {1, kMostProcesses * settings_.num_machines});
    settings_.num_processes = asked ? share_of(*asked) : settings_.on_cpu ? 1 : std::max(gpus, 1);
    if (is_given("multi_gpu") && asked && *asked < 2) {
      throw ConfigError("--multi_gpu needs at least 2 processes, and --num_processes is '" +
                        text("num_processes") + "'.");
    }
    if (is_on("multi_gpu") && ids.size() == 1) {
      throw ConfigError(where("gpu_ids") + " names one GPU, '" + ids[0] +
                        "', yet training is to use several: name at least two, or write all.");
    }
    // Upstream calls this multi_gpu too, when nothing else was said.
    const int all = settings_.num_processes * settings_.num_machines;
    if (!request_.config && !settings_.on_cpu && all > 1)
      settings_.values["multi_gpu"].text = "True";
    if (!settings_.on_cpu && settings_.num_processes > gpus) {
      warn(std::to_string(settings_.num_processes) + " ranks share " + std::to_string(gpus) +
           " GPU(s). NCCL refuses two ranks on one GPU; use fewer ranks or --cpu.");
    }
    if (is_on("multi_gpu") && settings_.on_cpu)
      warn("there is no GPU to be seen on this machine: the ranks train on the CPU.");
  }

  // A scheduler may grant fewer GPUs than can be seen.
  [[nodiscard]] int granted_gpus() const {
    const bool is_said = request_.scheduler && request_.scheduler->gpus;
    const auto granted = parse_int(is_said ? request_.scheduler->gpus->text : "");
    return static_cast<int>(std::min<std::int64_t>(machine_.gpus, granted.value_or(machine_.gpus)));
  }

  // Returns the ranks of one machine. num_processes counts those of all, as upstream's does.
  [[nodiscard]] int share_of(int ranks_of_all) const {
    if (ranks_of_all % settings_.num_machines == 0) return ranks_of_all / settings_.num_machines;
    throw ConfigError(where("num_processes") + " is '" + text("num_processes") +
                      "', the ranks of all machines, which " +
                      std::to_string(settings_.num_machines) +
                      " machines cannot share equally. Give a multiple of num_machines.");
  }

  // On GPUs the ranks bind themselves when asked to, because only they know which GPU they take.
  void choose_cores() {
    const auto asked = asked_affinity();
    const std::string reason = reason_not_to_bind(asked);
    if (!reason.empty()) {
      const bool surprising = settings_.on_cpu && asked == true && settings_.num_processes > 1;
      (surprising ? settings_.warnings : settings_.notes)
          .push_back("ranks are not bound to cores: " + reason);
      return;
    }
    settings_.cores = divide_cores(machine_.layout, settings_.num_processes);
    for (std::size_t rank = 0; rank < settings_.cores.size(); ++rank) {
      settings_.notes.push_back("rank " + std::to_string(rank) + " keeps to " +
                                to_string(settings_.cores[rank]));
    }
  }

  // Returns what somebody asks for. A flag wins over the file, the file over
  // ACCELERATE_CPU_AFFINITY. A false in the file says nothing: the original's questionnaire writes
  // it into every file.
  [[nodiscard]] std::optional<bool> asked_affinity() const {
    if (is_on("no_cpu_affinity")) return false;
    if (is_on("enable_cpu_affinity")) return true;
    if (!env("ACCELERATE_CPU_AFFINITY")) return std::nullopt;
    return env_flag("ACCELERATE_CPU_AFFINITY", false);
  }

  // Says why ranks are not bound; "" when they are to be bound.
  [[nodiscard]] std::string reason_not_to_bind(std::optional<bool> asked) const {
    if (asked == false) {
      return std::string(is_on("no_cpu_affinity") ? "--no_cpu_affinity"
                                                  : "ACCELERATE_CPU_AFFINITY") +
             " asks for that";
    }
    if (!settings_.on_cpu)
      return asked ? "each binds itself to those near its GPU" : "they use GPUs";
    if (settings_.num_processes == 1) return "there is one";
    if (!asked && environment_names_cores()) return "the environment names cores for OpenMP";
    if (machine_.layout.empty()) return "the system does not say where its cores are";
    const auto cores = std::min(machine_.cores, static_cast<int>(machine_.layout.size()));
    if (settings_.num_processes <= cores) return "";
    return std::to_string(settings_.num_processes) + " ranks on " + std::to_string(cores) +
           (cores == 1 ? " core" : " cores") + " would wait for each other";
  }

  void choose_threads() {
    const auto asked = ranged("num_cpu_threads_per_process", {1, 65536});
    const std::int64_t usual = openmp_threads().value_or(default_threads());
    settings_.threads_per_process =
        asked.value_or(static_cast<int>(std::max<std::int64_t>(usual, 1)));
  }

  // The threads of each rank when nobody sets them: its bound cores, or its part of all cores.
  [[nodiscard]] std::int64_t default_threads() const {
    if (!settings_.on_cpu) return 1;
    const bool is_task = !settings_.task.empty();
    const std::int64_t part = machine_.cores / (is_task ? request_.scheduler->task->local_world_size
                                                        : settings_.num_processes);
    return settings_.cores.empty() ? part
                                   : std::min<std::int64_t>(part, fewest_cores(settings_.cores));
  }

  void require_seconds(const char* flag, double least) const {
    const auto seconds = parse_double(text(flag));
    if (!seconds || (*seconds >= least && *seconds <= 1e6)) return;
    throw ConfigError("--" + std::string(flag) + " is '" + text(flag) + "'; it must lie between " +
                      (least > 0 ? "0.01" : "0") + " and 1000000 seconds.");
  }

  void read_port_and_grace_period() {
    settings_.main_process_port =
        ranged("main_process_port", {0, 65535}).value_or(is_one_machine() ? 0 : kUsualPort);
    const double seconds = parse_double(text("grace_period")).value_or(30);
    if (seconds < 0 || seconds > 1e6) {
      throw ConfigError("--grace_period is '" + text("grace_period") +
                        "'; it must lie between 0 and 1000000 seconds.");
    }
    settings_.grace_period = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
    require_seconds("monitor_interval", 0.01);
    require_seconds("hang_limit", 0);
  }

  // --- What ranks write ----------------------------------------------------------------------

  void read_output() {
    settings_.output = detail::parse_output({.tee = text("tee"),
                                             .redirects = text("redirects"),
                                             .local_ranks_filter = text("local_ranks_filter"),
                                             .log_dir = text("log_dir")},
                                            settings_.num_processes);
  }

  // --- Sharding ------------------------------------------------------------------------------

  // Refuses before the start what the ranks would refuse. A flag takes the same values as its key
  // in a file.
  void check_words_of_sharding() const {
    for (const auto& [name, text] : request_.flags) {
      const Flag* flag = find_flag(name);
      if (flag == nullptr) continue;
      const bool shards = flag->group == FlagGroup::fsdp || flag->group == FlagGroup::deepspeed;
      if (shards && settings_.counts(flag->group))
        (void)checked_config_text(name, text, "--" + name);
    }
  }

  void check_fsdp() const {
    const bool is_first = text("fsdp_version") != "2";
    if (is_given("use_parallelism_config") && (!is_on("use_fsdp") || is_first))
      throw ConfigError("--use_parallelism_config needs --use_fsdp and --fsdp_version 2.");
    // In version 2 fsdp_cpu_ram_efficient_loading decides both.
    if (is_on("use_fsdp") && is_first && is_on("fsdp_cpu_ram_efficient_loading") &&
        !is_on("fsdp_sync_module_states")) {
      throw ConfigError(
          where("fsdp_sync_module_states") +
          " is off while fsdp_cpu_ram_efficient_loading is on: then only rank 0 has "
          "weights, and nobody else would get them. Switch the one on or the other off.");
    }
  }

  void decide_whether_alone() {
    const auto modes = {"multi_gpu", "use_fsdp", "use_deepspeed", "use_megatron_lm"};
    const bool is_one = settings_.num_processes == 1 && is_one_machine() &&
                        settings_.max_restarts == 0 &&
                        std::ranges::none_of(modes, [&](const char* mode) { return is_on(mode); });
    settings_.alone = is_one || !settings_.task.empty();
    // A process that is alone runs as if started by hand, unless somebody asks for files.
    settings_.output.has_error_files = !settings_.alone || !settings_.output.log_dir.empty();
  }

  const LaunchRequest& request_;
  const Machine& machine_;
  LaunchOptions settings_;
};

}  // namespace

LaunchOptions merge_settings(const LaunchRequest& request, const Machine& machine) {
  return Merge(request, machine).run();
}

}  // namespace accelerate
