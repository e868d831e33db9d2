// Every flag of `accelerate launch` and every key of a configuration file has an effect on what is
// started, is refused, or is told to have none. A new one without any of these fails here.
#include <gtest/gtest.h>

#include <map>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/flags.h"
#include "accelerate/launch/protocol.h"
#include "accelerate/launch/settings.h"

namespace accelerate {
namespace {

using Flags = std::map<std::string, std::string>;

// What only the command itself, not the plan, makes of a flag; each has a test of its own.
const std::map<std::string, std::string> kElsewhere = {
    {"config_file", "is read before (Command.UsesTheNamedConfiguration)"},
    {"quiet", "keeps the report back (Command.IsQuietWhenAsked)"},
    {"debug", "is told to ranks, and where they run is written"},
    {"num_machines", "decides with whom launchers meet (Machines)"},
    {"module", "decides how the program is found (Program)"},
    {"no_python", "decides how the program is found (Program)"},
    {"deepspeed_hostfile", "says where ssh starts launchers (Starters)"},
    {"mpirun_hostfile", "says where mpirun starts ranks (Starters)"},
};

// What a file may say although it changes nothing: the questions of `accelerate config`, and the
// original's, write it into every file.
const std::map<std::string, std::string> kWrittenAlways = {
    {"same_network", "there is one machine"},
};

struct Outcome {
  bool is_refused = false;
  std::vector<std::string> warnings;
  std::string plan;
};

std::string text_of(const LaunchPlan& plan) {
  std::string text = std::to_string(plan.grace_period.count()) + ";";
  const auto append = [&](const Environment& environment) {
    for (const auto& [name, value] : environment)
      if (name != "ACCELERATE_JOB_TOKEN" && name != "MASTER_PORT") text += name + "=" + value + ";";
  };
  append(plan.shared);
  for (const auto& rank : plan.ranks) append(rank);
  text += plan.output.log_dir.string() + ";";
  for (const auto& rank : plan.output.ranks)
    text += std::to_string(static_cast<int>(rank.out)) + std::to_string(static_cast<int>(rank.err));
  for (const auto& share : plan.cores) text += cpu_list_text(share.cpus) + ";";
  return text;
}

// A machine with two GPUs and four cores.
Machine machine() {
  Machine found{.gpus = 2, .cores = 4};
  for (int cpu = 0; cpu < 4; ++cpu) found.layout.push_back({{cpu}, 0});
  return found;
}

Outcome outcome_of(const LaunchRequest& request) {
  Outcome outcome;
  try {
    const auto settings = merge_settings(request, machine());
    const LaunchPlan plan = make_plan(settings, ProgramKind::python);
    outcome.plan = text_of(plan) + (request.flags.contains("main_process_port") ||
                                            (request.config && request.config->main_process_port)
                                        ? settings.text("main_process_port")
                                        : "");
    outcome.warnings = plan.warnings;
  } catch (const ConfigError&) {
    outcome.is_refused = true;
  }
  return outcome;
}

// A value that is not the default, and differs from `before`.
std::vector<std::string> values_of(const std::string& type, const std::vector<std::string>& words) {
  if (!words.empty()) return words;
  if (type == "boolean") return {"true", "false"};
  if (type == "integer") return {"2", "3"};
  if (type == "number") return {"0.5", "2"};
  if (type.starts_with("list")) return {"true,false,true", "some,words"};
  return {"10.0.0.1", "1,0", "SomeLayer", "regular"};
}

bool counts(const LaunchRequest& with, const Outcome& before, const std::string& name) {
  const Outcome after = outcome_of(with);
  if (after.is_refused) return true;
  for (const auto& warning : after.warnings)
    if (warning.find(name) != std::string::npos) return true;
  return after.plan != before.plan;
}

// The flags that switch on the mode in which a flag means something.
Flags mode_of(FlagGroup group) {
  switch (group) {
    case FlagGroup::fsdp:
      return {{"use_fsdp", "True"}};
    case FlagGroup::deepspeed:
      return {{"use_deepspeed", "True"}};
    case FlagGroup::megatron:
      return {{"use_megatron_lm", "True"}};
    case FlagGroup::parallelism:
      return {{"use_fsdp", "True"},
              {"fsdp_version", "2"},
              {"use_parallelism_config", "True"},
              {"parallelism_config_cp_size", "2"},
              {"parallelism_config_sp_size", "2"}};
    case FlagGroup::hardware:
      return {{"num_processes", "1"}};  // Two would take both GPUs without being told to.
    case FlagGroup::fp8:
      return {{"mixed_precision", "fp8"}};
    default:
      return {};
  }
}

std::string type_of(FlagKind kind) {
  switch (kind) {
    case FlagKind::toggle:
    case FlagKind::truth:
    case FlagKind::boolean:
    case FlagKind::bit:
      return "boolean";
    case FlagKind::integer:
      return "integer";
    case FlagKind::number:
      return "number";
    case FlagKind::bits:
      return "list";
    default:
      return "text";
  }
}

TEST(EveryFlag, CountsIsRefusedOrIsToldToHaveNoEffect) {
  int walked = 0;
  for (const Flag& flag : launch_flags()) {
    if (kElsewhere.contains(flag.name)) continue;
    LaunchRequest base{.flags = mode_of(flag.group), .config = {}, .config_file = {}};
    base.flags.try_emplace("num_processes", "2");
    base.flags.erase(flag.name);
    const Outcome before = outcome_of(base);
    bool does_count = flag.choices.size() == 1;  // Other words are refused.
    for (const auto& value : values_of(type_of(flag.kind), flag.choices)) {
      LaunchRequest with = base;
      try {
        with.flags[flag.name] = checked_value(flag, value, flag.name);
      } catch (const ConfigError&) {
        continue;
      }
      does_count = does_count || counts(with, before, flag.name);
    }
    EXPECT_TRUE(does_count) << "--" << flag.name << " changes nothing and nobody says so";
    ++walked;
  }
  EXPECT_GT(walked, 110);
}

// A file in which a section means something.
ClusterConfig file_for(const std::string& section) {
  ClusterConfig config;
  config.num_processes = 2;
  config.distributed_type = section == "fsdp_config" || section == "parallelism_config"
                                ? DistributedType::FSDP
                            : section == "deepspeed_config"   ? DistributedType::DEEPSPEED
                            : section == "megatron_lm_config" ? DistributedType::MEGATRON_LM
                                                              : DistributedType::MULTI_GPU;
  if (section == "parallelism_config") {
    config.fsdp_config.fsdp_version = 2;
    config.parallelism_config.cp_size = 2;
    config.parallelism_config.sp_size = 2;
  }
  if (section == "fp8_config") config.mixed_precision = MixedPrecision::fp8;
  if (section == "dynamo_config") config.dynamo_config.backend = "INDUCTOR";
  return config;
}

TEST(EveryKey, CountsIsRefusedOrIsToldToHaveNoEffect) {
  int walked = 0;
  for (const ConfigKey& key : config_keys()) {
    if (kWrittenAlways.contains(key.name)) continue;
    LaunchRequest base{.flags = {}, .config = file_for(key.section), .config_file = "file.yaml"};
    const Outcome before = outcome_of(base);
    bool does_count = key.choices.size() == 1;
    for (const auto& value : values_of(key.type, key.choices)) {
      LaunchRequest with = base;
      try {
        set_config_key(*with.config, key.name, value, key.name);
      } catch (const ConfigError&) {
        continue;
      }
      does_count = does_count || counts(with, before, key.name);
    }
    EXPECT_TRUE(does_count) << key.section << " " << key.name
                            << " changes nothing and nobody says so";
    ++walked;
  }
  EXPECT_GT(walked, 90);
}

}  // namespace
}  // namespace accelerate
