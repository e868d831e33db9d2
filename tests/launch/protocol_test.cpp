// What our ranks are told against what Python Accelerate's launcher tells its own, key by key.
// tests/reference/launch_env_golden.py wrote the expectations.
#include "accelerate/launch/protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <variant>

#include "accelerate/base/error.h"
#include "accelerate/base/keyed_checksum.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/launch/flags.h"
#include "tests/launch/config/fsdp_environment.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Differences = std::vector<std::string>;

const nlohmann::json& golden() {
  static const auto json = nlohmann::json::parse(
      std::ifstream(ACCELERATE_SOURCE_DIR "/tests/reference/launch_env_golden.json"));
  return json;
}

LaunchOptions settings_of_row(const nlohmann::json& row) {
  LaunchRequest request;
  request.flags = split_arguments(row["flags"], launch_flags()).flags;
  if (!row["config"].is_null()) {
    request.config_file = "config.yaml";
    request.config = parse_cluster_config(row["config"], "config.yaml");
  }
  return merge_settings(request, {.gpus = row["gpus"], .cores = row["cores"]});
}

// What a program is told, while the environment of the launcher holds no value of its own.
Environment ours(const nlohmann::json& row, ProgramKind kind = ProgramKind::python) {
  const testing::ScopedEnv threads("OMP_NUM_THREADS", nullptr);
  const testing::ScopedEnv path("PYTHONPATH", nullptr);
  return shared_environment(settings_of_row(row), kind);
}

// "-K=v" is theirs alone, "+K=v" ours alone.
Differences differences(const Environment& theirs, const Environment& mine) {
  Differences found;
  for (const auto& [key, value] : theirs) {
    const auto other = mine.find(key);
    if (other == mine.end() || other->second != value) found.push_back("-" + key + "=" + value);
  }
  for (const auto& [key, value] : mine) {
    const auto other = theirs.find(key);
    if (other == theirs.end() || other->second != value) found.push_back("+" + key + "=" + value);
  }
  return found;
}

// Where we differ on purpose, and why.
Differences justified(const nlohmann::json& row) {
  const std::string name = row["name"];
  Differences expected;
  // Upstream starts one process here; ours are several, and told so rank by rank. With KMP_AFFINITY
  // they would all sit on the same cores.
  const Environment theirs = row["environment"];
  if (theirs.contains("MASTER_PORT")) {
    expected.push_back("-KMP_AFFINITY=granularity=fine,compact,1,0");
    expected.push_back("-MASTER_ADDR=127.0.0.1");
    expected.push_back("-MASTER_PORT=29500");
  }
  // Without these Python's library does the same, so nobody is told what nobody asked for.
  const Environment mine = ours(row);
  for (const auto& [key, value] : theirs) {
    const bool is_told = mine.contains(key);
    if (!is_told && (key == "ACCELERATE_DYNAMO_BACKEND" || key == "ACCELERATE_MIXED_PRECISION"))
      expected.push_back("-" + key + "=" + (key == "ACCELERATE_DYNAMO_BACKEND" ? "NO" : "no"));
    if (!is_told && key == "ACCELERATE_USE_CPU") expected.push_back("-" + key + "=False");
  }
  // Its DeepSpeed launcher forgets the compiler, and leaves the threads to torchrun.
  if (row["launcher"] == "deepspeed") {
    for (const char* told :
         {"+ACCELERATE_DYNAMO_MODE=default", "+ACCELERATE_DYNAMO_USE_DYNAMIC=False",
          "+ACCELERATE_DYNAMO_USE_FULLGRAPH=False",
          "+ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION=False", "+OMP_NUM_THREADS=1"})
      expected.push_back(told);
  }
  // It ignores fsdp_backward_prefetch_policy, which its own documentation writes.
  if (name.starts_with("file: FSDP")) expected.push_back("+FSDP_BACKWARD_PREFETCH=BACKWARD_PRE");
  return expected;
}

TEST(LaunchProtocol, TellsTheRanksWhatUpstreamTellsThem) {
  const std::string here = std::filesystem::current_path();
  for (const auto& row : golden()["rows"]) {
    Environment theirs = row["environment"];
    for (auto& [key, value] : theirs) {
      if (value == "<cwd>") value = here;
    }
    auto found = differences(theirs, ours(row)), expected = justified(row);
    std::ranges::sort(found);
    std::ranges::sort(expected);
    EXPECT_EQ(found, expected) << row["name"];
  }
  EXPECT_EQ(golden()["rows"].size(), 71U);
}

TEST(LaunchProtocol, TellsANativeProgramNothingThatNobodyAskedFor) {
  for (const auto& row : golden()["rows"]) {
    const auto settings = settings_of_row(row);
    const auto told = ours(row, ProgramKind::native);
    for (const auto& flag : launch_flags()) {
      const std::string variable = variable_of(flag);
      // Threads follow from the machine; two flags have one variable of affinity.
      const bool is_apart = variable == "OMP_NUM_THREADS" || variable == "ACCELERATE_CPU_AFFINITY";
      if (is_apart || settings.asked(flag.name) != nullptr) continue;
      EXPECT_FALSE(told.contains(variable)) << row["name"] << ": " << variable;
    }
  }
  const auto nothing_said = ours(golden()["rows"][0], ProgramKind::native);
  EXPECT_EQ(nothing_said.size(), 1U);
  EXPECT_TRUE(nothing_said.contains("OMP_NUM_THREADS"));
}

// While alive, the environment is what a rank is told, and nothing else of it.
class AsRank {
 public:
  explicit AsRank(const Environment& told) : fsdp_(told) {
    for (const char* name : {"ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"}) {
      const auto value = told.find(name);
      modes_.push_back(std::make_unique<testing::ScopedEnv>(
          name, value == told.end() ? nullptr : value->second.c_str()));
    }
  }

 private:
  testing::FsdpEnvironment fsdp_;
  std::vector<std::unique_ptr<testing::ScopedEnv>> modes_;
};

// Returns the settings, or the refusal.
std::variant<ResolvedFsdpOptions, std::string> sharding_under(const Environment& told) {
  const AsRank environment(told);
  const testing::LogCapture quiet;
  try {
    return resolve({}, MixedPrecision::no);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(LaunchProtocol, ShardsANativeProgramByTheDefaultsThatItIsNotTold) {
  int compared = 0;
  for (const auto& row : golden()["rows"]) {
    const auto told = ours(row, ProgramKind::native);
    if (!told.contains("ACCELERATE_USE_FSDP")) continue;
    EXPECT_EQ(sharding_under(told), sharding_under(ours(row))) << row["name"];
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

TEST(LaunchProtocol, LeavesTheUsersEnvironmentAloneUnlessAskedOtherwise) {
  const testing::ScopedEnv precision("ACCELERATE_MIXED_PRECISION", "bf16"),
      version("FSDP_VERSION", "2"), threads("OMP_NUM_THREADS", "4,2");
  LaunchRequest request;
  request.flags = {{"use_fsdp", "True"}, {"num_processes", "2"}};
  const auto silent = merge_settings(request, {.gpus = 2, .cores = 8});
  const auto plan = make_plan(silent, ProgramKind::python);
  for (const char* variable : {"ACCELERATE_MIXED_PRECISION", "FSDP_VERSION", "OMP_NUM_THREADS"})
    EXPECT_FALSE(plan.shared.contains(variable)) << variable;
  EXPECT_EQ(silent.threads_per_process, 4);
  EXPECT_TRUE(plan.warnings.empty()) << join(plan.warnings, "\n");
  request.flags["mixed_precision"] = "fp16";
  request.config_file = "c.yaml";
  request.config = parse_cluster_config(
      "distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_version: 1}\n", "c.yaml");
  const auto loud =
      make_plan(merge_settings(request, {.gpus = 2, .cores = 8}), ProgramKind::native);
  EXPECT_EQ(loud.shared.at("FSDP_VERSION"), "1");
  EXPECT_EQ(loud.warnings,
            (std::vector<std::string>{
                "ACCELERATE_MIXED_PRECISION is 'bf16' in the environment, and --mixed_precision "
                "makes it 'fp16': the flag wins.",
                "FSDP_VERSION is '2' in the environment, and 'fsdp_version' in c.yaml makes it "
                "'1': the file wins."}));
}

TEST(LaunchProtocol, TellsEachRankWhatTorchrunTellsItsWorkers) {
  LaunchRequest request;
  request.flags = {{"multi_gpu", "True"}, {"num_processes", "2"}};
  const auto settings = merge_settings(request, {.gpus = 2, .cores = 8});
  const testing::ScopedEnv threads("OMP_NUM_THREADS", nullptr);
  ASSERT_EQ(golden()["workers"].size(), 2U);
  for (int rank = 0; rank < 2; ++rank) {
    Environment mine = rank_environment(settings, rank, {.address = "127.0.0.1", .port = 1});
    mine.merge(shared_environment(settings, ProgramKind::python));
    Environment theirs = golden()["workers"][static_cast<std::size_t>(rank)];
    mine.erase("MASTER_PORT");
    theirs.erase("MASTER_PORT");
    // Their agent hosts the store, with us rank 0 does; the error file is their agent's own, and
    // the locale comes from Python.
    EXPECT_EQ(
        differences(theirs, mine),
        (Differences{"-ACCELERATE_DYNAMO_BACKEND=NO", "-ACCELERATE_MIXED_PRECISION=no",
                     "-LC_CTYPE=C.UTF-8", "-TORCHELASTIC_ERROR_FILE=<file>",
                     "-TORCHELASTIC_USE_AGENT_STORE=True", "+TORCHELASTIC_USE_AGENT_STORE=False"}));
  }
}

TEST(LaunchProtocol, TellsTheRanksOfALaunchATokenThatNobodyElseKnows) {
  const testing::ScopedEnv inherited("ACCELERATE_JOB_TOKEN", "00000000000000000000000000000000");
  LaunchRequest request;
  request.flags = {{"cpu", "True"}, {"num_processes", "2"}};
  const auto settings = merge_settings(request, {.gpus = 0, .cores = 8});
  const auto token_of = [](const LaunchPlan& plan, std::size_t rank) {
    return plan.ranks[rank].at("ACCELERATE_JOB_TOKEN");
  };
  const auto plan = make_plan(settings, {"/bin/true"}), other = make_plan(settings, {"/bin/true"});
  EXPECT_TRUE(key_from_digits(token_of(plan, 0)));
  EXPECT_EQ(token_of(plan, 0), token_of(plan, 1));
  EXPECT_NE(token_of(plan, 0), token_of(other, 0));
  EXPECT_NE(token_of(plan, 0), std::string(32, '0'));
  EXPECT_EQ(plan.argv, std::vector<std::string>{"/bin/true"});
}

TEST(LaunchProtocol, TellsRanksThatTheyHaveBeenStartedBefore) {
  LaunchRequest request;
  request.flags = {{"cpu", "True"}, {"num_processes", "1"}, {"max_restarts", "3"}};
  const auto settings = merge_settings(request, {.gpus = 0, .cores = 8});
  const auto first = make_plan(settings, {"/bin/true"}, nullptr, 0).ranks[0];
  const auto third = make_plan(settings, {"/bin/true"}, nullptr, 2).ranks[0];
  EXPECT_EQ(first.at("TORCHELASTIC_RESTART_COUNT"), "0");
  EXPECT_EQ(third.at("TORCHELASTIC_RESTART_COUNT"), "2");
  EXPECT_EQ(third.at("TORCHELASTIC_MAX_RESTARTS"), "3");
  EXPECT_EQ(first.at("ACCELERATE_LAUNCH_ID"), third.at("ACCELERATE_LAUNCH_ID"));
  EXPECT_EQ(first.at("ACCELERATE_LAUNCH_ID").size(), 32U);
}

TEST(LaunchProtocol, TellsALoneProcessNothingOfRanks) {
  LaunchRequest request;
  request.flags = {{"num_processes", "1"}};
  const auto settings = merge_settings(request, {.gpus = 0, .cores = 8});
  EXPECT_TRUE(rank_environment(settings, 0, {}).empty());
}

std::string default_of(const Flag& flag) {
  if (flag.kind == FlagKind::bit) return lower(flag.fallback);
  return flag.fallback;
}

TEST(FlagTable, IsUpstreamsParser) {
  std::size_t seen = 0;
  for (const auto& row : golden()["flags"]) {
    const std::string name = row["name"];
    const Flag* flag = find_flag(name);
    ASSERT_NE(flag, nullptr) << name;
    ++seen;
    EXPECT_EQ(flag->kind != FlagKind::toggle, row["takes_value"].get<bool>()) << name;
    const std::string theirs = row["default"].is_null() ? "" : row["default"].get<std::string>();
    if (flag->kind == FlagKind::toggle) continue;  // absent is off, whatever it is called
    const std::string unspaced =
        name == "fp8_override_linear_precision" ? "False,False,False" : theirs;
    EXPECT_EQ(default_of(*flag), unspaced) << name;
    // They misspell one of the compilers, "torhchxla_trace_once".
    if (name != "dynamo_backend") {
      EXPECT_EQ(flag->choices, row["choices"].get<std::vector<std::string>>()) << name;
    }
  }
  EXPECT_EQ(seen, 123U);
}

}  // namespace
}  // namespace accelerate
