#include "accelerate/launch/settings.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Flags = std::map<std::string, std::string>;
using testing::ScopedEnv;

constexpr const char* kFile =
    "distributed_type: MULTI_CPU\nnum_processes: 3\nmixed_precision: bf16\nrdzv_backend: static\n"
    "same_network: true\nenable_cpu_affinity: true\nmain_process_port: 0\n";

class Settings : public ::testing::Test {
 protected:
  LaunchOptions merge(Flags flags, const std::string& file = "", Machine machine = {0, 8}) {
    LaunchRequest request;
    request.flags = std::move(flags);
    if (!file.empty()) {
      request.config = parse_cluster_config(file, "c.yaml");
      request.config_file = "c.yaml";
    }
    return merge_settings(request, machine);
  }

  void expect_refused(Flags flags, const std::string& file, const std::string& message) {
    try {
      merge(std::move(flags), file);
      ADD_FAILURE() << "not refused; expected: " << message;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }

  ScopedEnv threads_{"OMP_NUM_THREADS", nullptr};
  ScopedEnv affinity_{"ACCELERATE_CPU_AFFINITY", nullptr};
};

TEST_F(Settings, StartOneRankAGpu) {
  EXPECT_EQ(merge({}, "", {4, 8}).num_processes, 4);
  EXPECT_EQ(merge({{"gpu_ids", "0,2"}}, "", {4, 8}).num_processes, 2);
  EXPECT_EQ(merge({{"cpu", "True"}}, "", {4, 8}).num_processes, 1);
}

TEST_F(Settings, StartOneRankWithoutGpusAndSaySo) {
  const auto settings = merge({});
  EXPECT_EQ(settings.num_processes, 1);
  EXPECT_TRUE(settings.alone);
  ASSERT_EQ(settings.warnings.size(), 1U);
  EXPECT_NE(settings.warnings[0].find("--num_processes 1  (on the CPU)"), std::string::npos);
  EXPECT_NE(settings.warnings[0].find("--num_cpu_threads_per_process 8"), std::string::npos);
}

TEST_F(Settings, AreSilentWhenTheUserSaidHowManyRanks) {
  EXPECT_TRUE(merge({{"num_processes", "2"}}).warnings.empty());
}

TEST_F(Settings, StartSeveralRanksOnTheCpu) {
  const auto settings = merge({{"num_processes", "4"}});
  EXPECT_EQ(settings.num_processes, 4);
  EXPECT_FALSE(settings.alone);
  EXPECT_EQ(settings.threads_per_process, 2);
}

TEST_F(Settings, DivideTheCoresAmongRanksUnlessTold) {
  EXPECT_EQ(merge({{"num_processes", "3"}}).threads_per_process, 2);
  EXPECT_EQ(merge({{"num_processes", "99"}}).threads_per_process, 1);
  EXPECT_EQ(merge({{"num_cpu_threads_per_process", "5"}}).threads_per_process, 5);
  const ScopedEnv threads("OMP_NUM_THREADS", "6");
  EXPECT_EQ(merge({{"num_processes", "2"}}).threads_per_process, 6);
  const ScopedEnv nested("OMP_NUM_THREADS", "4, 2");
  EXPECT_EQ(merge({{"num_processes", "2"}}).threads_per_process, 4);
  for (const char* wrong : {"4,", "4,two", "-1", "1e3"}) {
    const ScopedEnv threads_of("OMP_NUM_THREADS", wrong);
    expect_refused({{"num_processes", "2"}}, "", "OMP_NUM_THREADS is '" + std::string(wrong));
  }
}

// Two nodes of four cores.
Machine two_nodes(int gpus = 0) {
  Machine machine{.gpus = gpus, .cores = 8};
  for (int cpu = 0; cpu < 8; ++cpu) machine.layout.push_back({{cpu}, cpu / 4});
  return machine;
}

TEST_F(Settings, GiveEachRankOnTheCpuItsOwnCores) {
  const auto settings = merge({{"num_processes", "3"}}, "", two_nodes());
  ASSERT_EQ(settings.cores.size(), 3U);
  EXPECT_EQ(settings.cores[1], (CoreShare{{2, 3}, 2, 0}));
  EXPECT_EQ(settings.threads_per_process, 2);
  EXPECT_EQ(settings.notes[2], "rank 2 keeps to CPUs 4-7 (4 cores, memory of node 1)");
}

TEST_F(Settings, StartNoMoreThreadsThanThePoorestRankHasCores) {
  Machine machine{.gpus = 0, .cores = 10};
  for (int cpu = 0; cpu < 10; ++cpu) machine.layout.push_back({{cpu}, cpu / 5});
  EXPECT_EQ(merge({{"num_processes", "3"}}, "", machine).threads_per_process, 2);
  EXPECT_EQ(
      merge({{"num_processes", "3"}, {"no_cpu_affinity", "True"}}, "", machine).threads_per_process,
      3);
}

struct Unbound {
  Flags flags;
  std::string file;
  int gpus;
  std::string note;
};

TEST_F(Settings, SayWhyRanksAreNotBound) {
  const std::string two = "num_processes";
  for (const Unbound& row :
       {Unbound{{{two, "1"}}, "", 0, "there is one"},
        Unbound{{{two, "9"}}, "", 0, "9 ranks on 8 cores would wait for each other"},
        Unbound{
            {{two, "2"}, {"no_cpu_affinity", "True"}}, "", 0, "--no_cpu_affinity asks for that"},
        Unbound{
            {{two, "3"}, {"no_cpu_affinity", "True"}}, kFile, 0, "--no_cpu_affinity asks for that"},
        Unbound{{{two, "2"}}, "", 2, "they use GPUs"},
        Unbound{{{two, "2"}, {"enable_cpu_affinity", "True"}}, "", 2, "near its GPU"}}) {
    const auto settings = merge(row.flags, row.file, two_nodes(row.gpus));
    EXPECT_TRUE(settings.cores.empty()) << row.note;
    ASSERT_EQ(settings.notes.size(), 1U) << row.note;
    EXPECT_NE(settings.notes[0].find(row.note), std::string::npos) << settings.notes[0];
    EXPECT_TRUE(settings.warnings.empty()) << row.note;
  }
}

TEST_F(Settings, WarnOfWhatHasNoEffectWithoutItsMode) {
  struct Idle {
    Flags flags;
    std::string file, warning;
  };
  const std::pair<std::string, std::string> two{"num_processes", "2"};
  for (const auto& row :
       {Idle{{two, {"zero_stage", "3"}}, "", "--zero_stage has no effect without --use_deepspeed."},
        Idle{{two, {"fsdp_offload_params", "true"}, {"fsdp_version", "2"}},
             "",
             "--fsdp_offload_params, --fsdp_version have no effect without --use_fsdp."},
        Idle{{two, {"gradient_accumulation_steps", "4"}},
             "",
             "--gradient_accumulation_steps has no effect without --use_deepspeed."},
        Idle{{two, {"megatron_lm_tp_degree", "2"}}, "", "without --use_megatron_lm."},
        Idle{{two, {"fp8_backend", "te"}}, "", "without --mixed_precision fp8."},
        Idle{{two, {"dynamo_mode", "max-autotune"}}, "", "--dynamo_mode has no effect without a"},
        Idle{{two},
             "distributed_type: MULTI_CPU\nfsdp_config:\n  fsdp_version: 2\n",
             "'fsdp_config' in c.yaml has no effect without distributed_type FSDP."},
        Idle{{two, {"use_fsdp", "True"}},
             "distributed_type: MEGATRON_LM\nmegatron_lm_config:\n"
             "  megatron_lm_gradient_clipping: 0.5\n",
             "'megatron_lm_gradient_clipping' in c.yaml has no effect without distributed_type "
             "MEGATRON_LM: the program"},
        Idle{{two, {"use_fsdp", "True"}},
             "distributed_type: DEEPSPEED\ndeepspeed_config:\n  gradient_clipping: 0.5\n"
             "  gradient_accumulation_steps: 1\n",
             "'gradient_clipping' in c.yaml"},
        Idle{{two, {"use_fsdp", "True"}},
             "distributed_type: DEEPSPEED\ndeepspeed_config:\n  gradient_accumulation_steps: 4\n",
             "'gradient_accumulation_steps' in c.yaml"},
        Idle{{two},
             "distributed_type: MULTI_CPU\ndynamo_config:\n  dynamo_mode: max-autotune\n",
             "'dynamo_mode' in c.yaml"}}) {
    const auto settings = merge(row.flags, row.file);
    ASSERT_EQ(settings.warnings.size(), 1U) << row.warning;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, row.warning, settings.warnings[0]);
  }
  EXPECT_TRUE(merge({two, {"use_deepspeed", "True"}},
                    "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n")
                  .warnings.empty());
  for (const Flags& flags :
       {Flags{two, {"use_deepspeed", "True"}, {"zero_stage", "3"}},
        Flags{two, {"use_fsdp", "True"}, {"fsdp_version", "2"}},
        Flags{two, {"dynamo_backend", "inductor"}, {"dynamo_mode", "max-autotune"}}})
    EXPECT_TRUE(merge(flags).warnings.empty());
}

TEST_F(Settings, WarnWhenTheBindingAskedForWouldHurt) {
  const auto settings =
      merge({{"num_processes", "9"}, {"enable_cpu_affinity", "True"}}, "", two_nodes());
  ASSERT_EQ(settings.warnings.size(), 1U);
  EXPECT_NE(settings.warnings[0].find("9 ranks on 8 cores"), std::string::npos);
}

TEST_F(Settings, LetTheControlGroupLimitHowManyRanksAreBound) {
  Machine machine = two_nodes();
  machine.cores = 2;
  EXPECT_EQ(merge({{"num_processes", "2"}}, "", machine).cores.size(), 2U);
  EXPECT_TRUE(merge({{"num_processes", "3"}}, "", machine).cores.empty());
}

TEST_F(Settings, LeaveCoresThatTheEnvironmentNamesAlone) {
  const ScopedEnv named("GOMP_CPU_AFFINITY", "0-7");
  EXPECT_TRUE(merge({{"num_processes", "2"}}, "", two_nodes()).cores.empty());
  EXPECT_EQ(merge({{"num_processes", "2"}, {"enable_cpu_affinity", "True"}}, "", two_nodes())
                .cores.size(),
            2U);
}

TEST_F(Settings, TakeTheVariableForAffinityWhereNoFlagSpeaks) {
  const ScopedEnv off("ACCELERATE_CPU_AFFINITY", "0");
  EXPECT_TRUE(merge({{"num_processes", "2"}}, "", two_nodes()).cores.empty());
  EXPECT_EQ(merge({}, kFile, two_nodes()).cores.size(), 3U);  // the file says true
  const ScopedEnv bad("ACCELERATE_CPU_AFFINITY", "maybe");
  EXPECT_THROW(merge({{"num_processes", "2"}}, "", two_nodes()), ConfigError);
}

TEST_F(Settings, TakeEveryKeyFromTheFileThoseWithDefaultsToo) {
  const auto settings = merge({}, kFile, two_nodes());
  EXPECT_EQ(settings.num_processes, 3);
  EXPECT_TRUE(settings.is_on("cpu"));
  EXPECT_EQ(settings.text("mixed_precision"), "bf16");
  EXPECT_TRUE(settings.is_on("same_network"));
  EXPECT_TRUE(settings.is_on("enable_cpu_affinity"));
  EXPECT_TRUE(settings.warnings.empty());
}

TEST_F(Settings, LetTheCommandLineWin) {
  const auto settings = merge({{"num_processes", "2"}, {"mixed_precision", "no"}}, kFile);
  EXPECT_EQ(settings.num_processes, 2);
  EXPECT_EQ(settings.text("mixed_precision"), "no");
}

TEST_F(Settings, LetAModeFlagWinOverTheFilesType) {
  const auto settings =
      merge({{"use_fsdp", "True"}}, "distributed_type: MULTI_GPU\nnum_processes: 2\n");
  EXPECT_TRUE(settings.is_on("use_fsdp"));
  EXPECT_FALSE(settings.is_on("multi_gpu"));
}

TEST_F(Settings, TrainFsdpOnTheCpuWhenAskedTo) {
  const auto settings =
      merge({{"cpu", "True"}}, "distributed_type: FSDP\nnum_processes: 2\n", {2, 8});
  EXPECT_TRUE(settings.is_on("cpu"));
  EXPECT_TRUE(settings.is_on("use_fsdp"));
}

TEST_F(Settings, WarnWhenRanksWouldShareAGpu) {
  const auto settings = merge({{"num_processes", "4"}}, "", {2, 8});
  ASSERT_EQ(settings.warnings.size(), 1U);
  EXPECT_NE(settings.warnings[0].find("4 ranks share 2 GPU"), std::string::npos);
}

TEST_F(Settings, RefuseWhatIsNotAllowed) {
  expect_refused({{"num_processes", "0"}}, "", "--num_processes is '0'; it must lie between 1");
  expect_refused({{"num_processes", "-1"}}, "", "'-1'");
  expect_refused({{"num_processes", "100000"}}, "", "4096");
  expect_refused({{"cpu", "True"}, {"use_fsdp", "True"}}, "", "--cpu and --use_fsdp exclude");
  expect_refused({{"enable_cpu_affinity", "True"}, {"no_cpu_affinity", "True"}}, "",
                 "--enable_cpu_affinity and --no_cpu_affinity exclude");
  expect_refused({{"multi_gpu", "True"}, {"num_processes", "1"}}, "", "at least 2");
  expect_refused({{"multi_gpu", "True"}, {"gpu_ids", "3"}}, "", "'3'");
  expect_refused({{"gpu_ids", "0,x"}}, "", "'x' is not the id of a GPU");
  expect_refused({{"gpu_ids", "0,0"}}, "", "twice");
  expect_refused({{"main_process_port", "65536"}}, "", "between 0 and 65535");
  expect_refused({{"num_cpu_threads_per_process", "0"}}, "",
                 "--num_cpu_threads_per_process is '0'");
  expect_refused({{"use_parallelism_config", "True"}}, "", "--use_fsdp and --fsdp_version 2");
  expect_refused({{"use_fsdp", "True"}, {"fsdp_sync_module_states", "false"}}, "",
                 "fsdp_cpu_ram_efficient_loading");
}

TEST_F(Settings, OfTwoWordsForOneThingVersion2HearsOne) {
  LaunchRequest request;
  request.flags = {
      {"use_fsdp", "True"}, {"fsdp_version", "2"}, {"fsdp_sync_module_states", "false"}};
  EXPECT_NO_THROW((void)merge_settings(request, {.gpus = 0, .cores = 8}));
}

TEST_F(Settings, RefuseWordsOfShardingThatTheRanksWouldRefuse) {
  const std::vector<std::tuple<const char*, const char*, const char*, const char*>> rows = {
      {"use_fsdp", "fsdp_sharding_strategy", "FULL_SHRAD", "Did you mean 'FULL_SHARD'?"},
      {"use_fsdp", "fsdp_reshard_after_forward", "SHARD_GRADOP",
       "allowed is true, false or one of"},
      {"use_fsdp", "fsdp_min_num_params", "-1", "allowed is an integer of at least 0"},
      {"use_fsdp", "fsdp_state_dict_type", "4", "FULL_STATE_DICT, LOCAL_STATE_DICT"},
      {"use_deepspeed", "zero_stage", "4", "allowed is an integer from 0 to 3"},
      {"use_deepspeed", "offload_param_device", "gpu", "allowed is one of none, cpu, nvme"},
      {"use_deepspeed", "gradient_clipping", "-1.0", "a number of at least 0"}};
  for (const auto& [mode, name, text, message] : rows) {
    expect_refused({{mode, "True"}, {name, text}}, "", message);
    expect_refused({{mode, "True"}, {name, text}}, "", "--" + std::string(name) + " is '" + text);
    EXPECT_NO_THROW(merge({{name, text}}));  // what nobody reads is nobody's error
  }
}

TEST_F(Settings, TakeTheNumbersThatTheRanksTake) {
  for (const auto& [name, text] : Flags{{"fsdp_sharding_strategy", "2"},
                                        {"fsdp_backward_prefetch", "1"},
                                        {"fsdp_state_dict_type", "3"}}) {
    EXPECT_EQ(merge({{"use_fsdp", "True"}, {name, text}}).text(name), text);
  }
}

TEST_F(Settings, NameTheFlagWhoseFeatureComesLater) {
  const std::vector<std::pair<const char*, const char*>> rows = {
      {"rdzv_backend", "etcd"},   {"tpu", "True"},          {"vm", "a"},
      {"aws_access_key_id", "k"}, {"tpu_use_sudo", "True"}, {"downcast_bf16", "True"},
      {"tpu_cluster", "True"}};
  for (const auto& [name, value] : rows) {
    expect_refused({{name, value}}, "", "--" + std::string(name) + " is '" + value + "'");
  }
}

TEST_F(Settings, ReadTheMachines) {
  const Flags flags = {{"cpu", "True"},
                       {"num_machines", "4"},
                       {"machine_rank", "3"},
                       {"main_process_ip", "::1"},
                       {"num_processes", "8"}};
  const auto settings = merge(flags);
  EXPECT_EQ(settings.num_machines, 4);
  EXPECT_EQ(settings.machine_rank, 3);
  EXPECT_EQ(settings.num_processes, 2) << "of this machine";
  EXPECT_EQ(settings.main_process_port, 29500);
  EXPECT_FALSE(settings.alone);
  const auto of_file = merge({},
                             "distributed_type: MULTI_CPU\nnum_machines: 2\nmachine_rank: 1\n"
                             "num_processes: 2\nmain_process_ip: 10.0.0.1\n"
                             "main_process_port: 4000\nsame_network: false\n");
  EXPECT_EQ(of_file.machine_rank, 1);
  EXPECT_EQ(of_file.num_processes, 1);
  EXPECT_EQ(of_file.main_process_port, 4000);
  EXPECT_FALSE(of_file.alone) << "there are other ranks elsewhere";
}

TEST_F(Settings, ReadMachinesThatComeAndGo) {
  const auto settings = merge({{"cpu", "True"},
                               {"num_machines", "2:4"},
                               {"rdzv_backend", "c10d"},
                               {"main_process_ip", "10.0.0.1"},
                               {"num_processes", "8"},
                               {"max_restarts", "3"},
                               {"rdzv_conf", "join_timeout=90,last_call_timeout=0.5"}});
  EXPECT_TRUE(settings.machines_come_and_go);
  EXPECT_EQ(settings.fewest_machines, 2);
  EXPECT_EQ(settings.num_machines, 4);
  EXPECT_EQ(settings.num_processes, 2) << "of this machine, when all four are there";
  EXPECT_EQ(settings.max_restarts, 3);
  EXPECT_EQ(settings.join_timeout, std::chrono::seconds(90));
  EXPECT_EQ(settings.last_call_timeout, std::chrono::milliseconds(500));
  EXPECT_FALSE(merge({{"rdzv_backend", "c10d"}, {"num_processes", "2"}}).machines_come_and_go);
}

TEST_F(Settings, NameWhatIsWrongWithMachines) {
  const Flags good = {{"num_machines", "2"}, {"main_process_ip", "10.0.0.1"}};
  const auto refused = [&](Flags flags, const std::string& why) {
    for (const auto& [name, value] : good) flags.try_emplace(name, value);
    expect_refused(flags, "", why);
  };
  refused({{"machine_rank", "2"}},
          "--machine_rank is '2', and there are 2 machines: allowed are 0 to 1");
  refused({{"num_processes", "3"}}, "the ranks of all machines, which 2 machines cannot share");
  refused({{"main_process_ip", ""}}, "nobody says where they meet");
  refused({{"main_process_port", "0"}}, "--main_process_port is '0', a free port, which other");
  refused({{"num_machines", "0"}}, "--num_machines is '0'; allowed is a number from 1");
  refused({{"num_machines", "2:4"}}, "'2:4', a range, but under the static rendezvous");
  refused({{"num_machines", "4:2"}, {"rdzv_backend", "c10d"}}, "'4:2'; allowed is a number");
  refused({{"rdzv_backend", "etcd-v2"}}, "'etcd-v2'; allowed are static and c10d");
  expect_refused({{"rdzv_conf", "a=b"}}, "", "--rdzv_conf has 'a=b'");
  refused({{"rdzv_conf", "join_timeout=soon"}}, "'join_timeout=soon'; allowed are timeout=");
  refused({{"max_restarts", "-1"}}, "--max_restarts is '-1'");
  refused({{"monitor_interval", "0.0"}}, "--monitor_interval is '0.0'; it must lie between 0.01");
  refused({{"hang_limit", "-1.0"}}, "--hang_limit is '-1.0'; it must lie between 0 and");
  expect_refused({{"machine_rank", "1"}}, "", "--machine_rank is '1', and there is one machine");
}

TEST_F(Settings, TakeTheDefaultsOfWhatComesLater) {
  EXPECT_NO_THROW(merge({{"num_machines", "1"},
                         {"machine_rank", "0"},
                         {"max_restarts", "0"},
                         {"rdzv_backend", "c10d"},
                         {"monitor_interval", "5.0"}}));
}

TEST_F(Settings, NameTheKeyOfTheFileThatIsNotAllowed) {
  expect_refused({}, "distributed_type: XLA\nnum_processes: 2\n",
                 "distributed_type in c.yaml is XLA");
  expect_refused({}, "distributed_type: MULTI_CPU\nnum_processes: -1\n", "pass --num_processes N");
}

TEST_F(Settings, ReadTheDefaultFileUnlessTheCpuIsAskedFor) {
  const testing::TemporaryFolder home;
  const ScopedEnv scope("HF_HOME", home.path().c_str());
  home.write("accelerate/default_config.yaml", kFile);
  EXPECT_TRUE(read_request({}).config.has_value());
  EXPECT_FALSE(read_request({{"cpu", "True"}}).config.has_value());
  const std::string other = home.write("other.yaml", kFile);
  EXPECT_EQ(read_request({{"cpu", "True"}, {"config_file", other}}).config_file, other);
}

}  // namespace
}  // namespace accelerate
