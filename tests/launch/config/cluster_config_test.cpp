#include "accelerate/launch/config/cluster_config.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/documents/yaml.h"
#include "accelerate/launch/flags.h"
#include "tests/support/files.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::file_text;
using testing::TemporaryFolder;

const std::filesystem::path kData = ACCELERATE_SOURCE_DIR "/tests/launch/config/data";

ClusterConfig parse(const std::string& text) {
  return parse_cluster_config(text, "my.yaml");
}

// The message of the ConfigError that `text` ends in; "" when it is accepted.
std::string refusal(const std::string& text, const std::string& name = "my.yaml") {
  try {
    (void)parse_cluster_config(text, name);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// --- Against the original
// --------------------------------------------------------------------------

Node golden_configs() {
  return read_json(file_text(ACCELERATE_SOURCE_DIR "/tests/reference/config_golden.json"),
                   "golden_configs");
}

TEST(ClusterConfigGolden, WritesWhatPythonAccelerateWritesForTheSameFile) {
  const Node rows = golden_configs();
  EXPECT_EQ(std::to_string(rows.find("rows")->items.size()), rows.find("count")->text);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData))
    files += entry.is_regular_file();
  EXPECT_EQ(std::to_string(files), rows.find("count")->text)
      << "run tests/reference/config_golden.py";
  for (const Node& row : rows.find("rows")->items) {
    const ClusterConfig config = load_cluster_config(kData / row.find("file")->text);
    EXPECT_EQ(to_yaml(config), row.find("yaml")->text) << row.find("file")->text;
    EXPECT_EQ(to_json(config), row.find("json")->text) << row.find("file")->text;
  }
}

TEST(ClusterConfigGolden, ReadsBackWhatItWrote) {
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    const ClusterConfig config = load_cluster_config(entry.path());
    EXPECT_EQ(parse_cluster_config(to_yaml(config), "a.yaml"), config) << entry.path();
    EXPECT_EQ(parse_cluster_config(to_json(config), "a.json"), config) << entry.path();
  }
}

TEST(ClusterConfig, MissionsFsdpFileLoadsAndIsWrittenBackWithItsOwnKeys) {
  const ClusterConfig config = load_cluster_config(kData / "fsdp.yaml");
  EXPECT_EQ(config.distributed_type, DistributedType::FSDP);
  EXPECT_EQ(config.mixed_precision, MixedPrecision::bf16);
  EXPECT_EQ(config.num_processes, 2);
  EXPECT_TRUE(config.same_network);
  EXPECT_EQ(config.fsdp_config.backward_prefetch, BackwardPrefetch::BACKWARD_PRE);
  EXPECT_EQ(config.fsdp_config.sharding_strategy, ShardingStrategy::FULL_SHARD);
  EXPECT_EQ(config.fsdp_config.transformer_cls_names_to_wrap,
            std::vector<std::string>{"BertLayer"});
  // The original adds the one key the file leaves out.
  std::string expected = file_text(kData / "fsdp.yaml");
  expected.insert(expected.find("fsdp_config:"), "enable_cpu_affinity: false\n");
  EXPECT_EQ(to_yaml(config), expected);
}

TEST(ClusterConfig, PythonAccelerateLoadsTheMissionsFileAsWeWriteIt) {
  const std::string python = ACCELERATE_SOURCE_DIR "/.venv/bin/python";
  if (access(python.c_str(), X_OK) != 0) {
    ASSERT_EQ(std::getenv("CI"), nullptr) << "no " << python;
    GTEST_SKIP() << "needs Python with accelerate in .venv";
  }
  const TemporaryFolder folder;
  const auto file = folder.path() / "fsdp.yaml";
  save_cluster_config(load_cluster_config(kData / "fsdp.yaml"), file);
  const std::string program =
      "import sys\n"
      "from accelerate.commands.config.config_args import load_config_from_file\n"
      "c = load_config_from_file(sys.argv[1])\n"
      "print(c.distributed_type.value, c.num_processes, c.mixed_precision, "
      "c.fsdp_config['fsdp_backward_prefetch_policy'], c.fsdp_config['fsdp_use_orig_params'])\n";
  const auto result = testing::run_program(
      {python, "-c", program, file.string()},
      {.env = {}, .timeout = std::chrono::seconds(60), .working_directory = {}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "FSDP 2 bf16 BACKWARD_PRE True\n");
}

// --- Legacy and lenient forms
// ----------------------------------------------------------------------

TEST(ClusterConfig, UnquotedNoIsAWordAndNotABoolean) {
  EXPECT_EQ(parse("distributed_type: NO\nmixed_precision: no\n").mixed_precision,
            MixedPrecision::no);
  EXPECT_EQ(parse("distributed_type: 'NO'\nmixed_precision: false\n").mixed_precision,
            MixedPrecision::no);
  EXPECT_EQ(parse("distributed_type: false\n").distributed_type, DistributedType::NO);
}

TEST(ClusterConfig, OldKeysAreTranslated) {
  EXPECT_EQ(parse("distributed_type: MULTI_GPU\nfp16: true\n").mixed_precision,
            MixedPrecision::fp16);
  EXPECT_EQ(parse("distributed_type: MULTI_GPU\nfp16: false\n").mixed_precision, std::nullopt);
  EXPECT_EQ(parse("distributed_type: NO\nfp16: true\nmixed_precision: bf16\n").mixed_precision,
            MixedPrecision::bf16);
  EXPECT_EQ(parse("distributed_type: NO\ndynamo_backend: INDUCTOR\n").dynamo_config.backend,
            "INDUCTOR");
  EXPECT_EQ(parse("distributed_type: NO\ndynamo_backend: NO\n").dynamo_config, DynamoConfig{});
  EXPECT_EQ(parse("distributed_type: TPU\n").distributed_type, DistributedType::XLA);
}

TEST(ClusterConfig, ListsAreCommaTextsWhereTheseAreMeant) {
  const ClusterConfig config = parse(
      "distributed_type: FSDP\ngpu_ids: [0, 1]\n"
      "fsdp_config: {fsdp_transformer_layer_cls_to_wrap: [A, B]}\n"
      "deepspeed_config: {deepspeed_moe_layer_cls_names: [C]}\n");
  EXPECT_EQ(config.gpu_ids, "0,1");
  EXPECT_EQ(config.fsdp_config.transformer_cls_names_to_wrap, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(config.deepspeed_config.deepspeed_moe_layer_cls_names, "C");
}

TEST(ClusterConfig, CompilersOfOldVersionsAreRetired) {
  for (const std::string word : {"NVFUSER", "AOT_NVFUSER", "aot_cudagraphs", "IPEX"}) {
    for (const std::string& text :
         {"dynamo_backend: " + word + "\n", "dynamo_config: {dynamo_backend: " + word + "}\n",
          "dynamo_config: {backend: " + word + "}\n"}) {
      std::vector<RetiredKey> retired;
      const auto config =
          parse_cluster_config("distributed_type: NO\n" + text, "my.yaml", &retired);
      EXPECT_EQ(config.dynamo_config, DynamoConfig{}) << text;
      ASSERT_EQ(retired.size(), 1u) << text;
      EXPECT_NE(describe(retired[0]).find("(line 2) was for"), std::string::npos) << text;
    }
  }
}

TEST(ClusterConfig, AbsentKeysTakeTheirDefaults) {
  EXPECT_EQ(parse("distributed_type:\n").distributed_type, DistributedType::NO);
  const ClusterConfig config = parse("distributed_type: MULTI_CPU\n");
  EXPECT_EQ(config.num_processes, -1);
  EXPECT_FALSE(config.use_cpu);
  EXPECT_FALSE(config.debug);
  EXPECT_EQ(config.compute_environment, ComputeEnvironment::LOCAL_MACHINE);
  EXPECT_EQ(parse("distributed_type: NO\n").num_processes, 1);
  EXPECT_EQ(parse("distributed_type: NO\nnum_processes:\n").num_processes, 1);
  EXPECT_EQ(parse("distributed_type: NO\nnum_machines:\n").num_machines, 1);
}

TEST(ClusterConfig, ThePrefixOfASectionMayBeLeftOutAndIsWrittenAsItWasRead) {
  const std::string text =
      "distributed_type: FSDP\nfsdp_config:\n  offload_params: true\n  fsdp_version: 2\n";
  const ClusterConfig config = parse(text);
  EXPECT_EQ(config.fsdp_config.cpu_offload, true);
  EXPECT_EQ(config.fsdp_config.fsdp_version, 2);
  EXPECT_NE(to_yaml(config).find("fsdp_config:\n  fsdp_version: 2\n  offload_params: true\n"),
            std::string::npos);
}

TEST(ClusterConfig, ShardingStrategyMayBeTheNumberOfOldFiles) {
  EXPECT_EQ(parse("distributed_type: FSDP\nfsdp_config: {sharding_strategy: 2}\n")
                .fsdp_config.sharding_strategy,
            ShardingStrategy::SHARD_GRAD_OP);
}

TEST(ClusterConfig, ThreeBooleansHaveManySpellings) {
  const std::vector<bool> first{true, false, false}, none(3, false);
  const std::pair<const char*, std::vector<bool>> spellings[] = {{"[true, false, false]", first},
                                                                 {"(True, False, False)", first},
                                                                 {"'[true, no, no]'", first},
                                                                 {"true,false,false", first},
                                                                 {"false", none}};
  for (const auto& [text, flags] : spellings)
    EXPECT_EQ(parse("distributed_type: NO\nfp8_config:\n  override_linear_precision: " +
                    std::string(text) + "\n")
                  .fp8_config.override_linear_precision,
              flags)
        << text;
}

TEST(ClusterConfig, AutoOfDeepSpeedIsAnAbsentKey) {
  EXPECT_EQ(parse("distributed_type: DEEPSPEED\ndeepspeed_config:\n  gradient_clipping: auto\n"
                  "  gradient_accumulation_steps: auto\n")
                .deepspeed_config,
            DeepSpeedConfig{});
}

TEST(ClusterConfig, IntegersMayBeQuotedOrHaveAnExponent) {
  EXPECT_EQ(parse("distributed_type: FSDP\nfsdp_config: {min_num_params: 1e8}\n")
                .fsdp_config.min_num_params,
            100'000'000);
  EXPECT_EQ(parse("distributed_type: NO\nmain_process_port: '29500'\n").main_process_port, 29500);
}

// --- Refusals
// --------------------------------------------------------------------------------------

struct BadConfig {
  const char* what;
  const char* text;
  const char* message;  ///< All of its parts, separated by '|'.
};

class BadConfigs : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, AreRefusedWithKeyLineAndCure) {
  const std::string message = refusal(GetParam().text);
  EXPECT_EQ(message.find("my.yaml"), 0u) << message;
  std::stringstream parts(GetParam().message);
  for (std::string part; std::getline(parts, part, '|');) {
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadConfigs,
    ::testing::Values(
        BadConfig{"Empty", "", "holds no keys|accelerate config"},
        BadConfig{"OnlyANote", "# nothing\n", "holds no keys"},
        BadConfig{"AList", "- a\n", "line 1|a list"},
        BadConfig{"AWord", "hello\n", "line 1|'hello'"},
        BadConfig{"NoDistributedType", "num_processes: 2\n",
                  "'distributed_type' is missing|NO, MULTI_CPU"},
        BadConfig{"TensorParallelism", "num_processes: 2\ndistributed_type: TP\n",
                  "line 2|older versions had for tensor parallelism|parallelism_config|MULTI_GPU"},
        BadConfig{"ListOfNothing", "distributed_type: NO\ngpu_ids: [0, null]\n",
                  "'gpu_ids' is a list|a text such as 'A,B'"},
        BadConfig{"UnknownDistributedType", "distributed_type: MULTI_GPUS\n",
                  "line 1|'MULTI_GPUS'|MULTI_GPU, MULTI_NPU|Did you mean 'MULTI_GPU'?"},
        BadConfig{"SageMaker", "compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: x\n",
                  "line 1|AMAZON_SAGEMAKER|LOCAL_MACHINE"},
        BadConfig{"UnknownKey", "distributed_type: NO\nnum_proceses: 2\n",
                  "line 2|unknown key 'num_proceses'|Did you mean 'num_processes'?|Known keys: |"
                  "or remove it [accelerate.error/unknown-key]"},
        BadConfig{"UnknownSection", "distributed_type: NO\nfsdp_confg: {}\n",
                  "line 2|unknown key 'fsdp_confg'|'fsdp_config'"},
        BadConfig{"UnknownNestedKey",
                  "distributed_type: FSDP\nfsdp_config:\n  fsdp_offload_param: true\n",
                  "line 3|unknown key 'fsdp_offload_param' in 'fsdp_config'|Did you mean "
                  "'fsdp_offload_params'?"},
        BadConfig{"NestedKeyAtTopLevel", "distributed_type: FSDP\nfsdp_version: 2\n",
                  "line 2|unknown key 'fsdp_version'|belongs in the section 'fsdp_config'"},
        BadConfig{"TopLevelKeyNested",
                  "distributed_type: FSDP\nfsdp_config:\n  mixed_precision: bf16\n",
                  "line 3|belongs at the top level"},
        BadConfig{"SectionIsNoMap", "distributed_type: FSDP\nfsdp_config: full_shard\n",
                  "line 2|'fsdp_config' is 'full_shard'|fsdp_version"},
        BadConfig{"SectionIsAList", "distributed_type: FSDP\ndeepspeed_config: [1]\n",
                  "line 2|'deepspeed_config' is a list"},
        BadConfig{"SameKeyUnderTwoNames",
                  "distributed_type: FSDP\nfsdp_config:\n  fsdp_backward_prefetch: BACKWARD_PRE\n  "
                  "fsdp_backward_prefetch_policy: NO_PREFETCH\n",
                  "line 4|line 3|are the same key"},
        BadConfig{"SameKeyWithAndWithoutPrefix",
                  "distributed_type: FSDP\nfsdp_config: {fsdp_version: 1, version: 2}\n",
                  "line 2|are the same key"},
        BadConfig{"DuplicateKey", "distributed_type: NO\nuse_cpu: true\nuse_cpu: false\n",
                  "line 3|appears twice|line 2"},
        BadConfig{"BooleanIsAWord", "distributed_type: NO\nuse_cpu: maybe\n",
                  "line 2|'use_cpu' is 'maybe'|true or false"},
        BadConfig{"BooleanIsAList", "distributed_type: NO\nuse_cpu: [true]\n",
                  "line 2|'use_cpu' is a list|true or false"},
        BadConfig{"ZeroProcesses", "distributed_type: NO\nnum_processes: 0\n",
                  "line 2|'num_processes' is '0'|other than 0"},
        BadConfig{"FractionOfAProcess", "distributed_type: NO\nnum_processes: 1.5\n",
                  "'1.5'|an integer"},
        BadConfig{"HugeInteger", "distributed_type: NO\nnum_processes: 99999999999\n",
                  "'99999999999'"},
        BadConfig{"PortTooLarge", "distributed_type: NO\nmain_process_port: 65536\n",
                  "'65536'|from 0 to 65535"},
        BadConfig{"PortIsAWord", "distributed_type: NO\nmain_process_port: http\n",
                  "'http'|from 0 to 65535"},
        BadConfig{"MixedPrecision", "distributed_type: NO\nmixed_precision: bf61\n",
                  "line 2|'bf61'|no, fp16, bf16, fp8|Did you mean 'bf16'?"},
        BadConfig{"FsdpVersion", "distributed_type: FSDP\nfsdp_config: {fsdp_version: 3}\n",
                  "'fsdp_version' is '3'|from 1 to 2"},
        BadConfig{"FsdpStrategy",
                  "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: FULLSHARD}\n",
                  "'FULLSHARD'|Did you mean 'FULL_SHARD'?"},
        BadConfig{"FsdpReshard",
                  "distributed_type: FSDP\nfsdp_config: {fsdp_reshard_after_forward: perhaps}\n",
                  "'perhaps'|true, false or one of FULL_SHARD"},
        BadConfig{"ZeroStage", "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 4}\n",
                  "'zero_stage' is '4'|from 0 to 3"},
        BadConfig{"OffloadDevice",
                  "distributed_type: DEEPSPEED\ndeepspeed_config: {offload_param_device: disk}\n",
                  "'disk'|none, cpu, nvme"},
        BadConfig{"Clipping",
                  "distributed_type: DEEPSPEED\ndeepspeed_config: {gradient_clipping: -1}\n",
                  "'-1'|a number of at least 0"},
        BadConfig{"ParallelSize",
                  "distributed_type: FSDP\nparallelism_config: {parallelism_config_tp_size: 0}\n",
                  "'0'|at least 1"},
        BadConfig{"Fp8Backend", "distributed_type: NO\nfp8_config: {backend: TP}\n",
                  "'TP'|AO, TE, MSAMP"},
        BadConfig{"Fp8Override",
                  "distributed_type: NO\nfp8_config: {override_linear_precision: [true, false]}\n",
                  "a list of three booleans"},
        BadConfig{"DynamoBackend",
                  "distributed_type: NO\ndynamo_config: {dynamo_backend: INDUCTR}\n",
                  "Did you mean 'INDUCTOR'?"},
        BadConfig{"LegacyFp16", "distributed_type: NO\nfp16: perhaps\n",
                  "line 2|'fp16' is 'perhaps'|mixed_precision"},
        BadConfig{"LegacyDynamoTwice",
                  "distributed_type: NO\ndynamo_backend: EAGER\ndynamo_config: {}\n",
                  "line 2|dynamo_config"},
        BadConfig{"ListOfLists", "distributed_type: XLA\ntpu_env: [[a]]\n",
                  "'tpu_env' is a list|a list of texts"},
        BadConfig{"AliasBomb", "&x\n- *x\n", "anchors"},
        BadConfig{"Tag", "distributed_type: !!python/name:os.system x\n", "line 1|the tag"}),
    [](const auto& info) { return std::string(info.param.what); });

TEST(ClusterConfig, JsonFilesAreJsonAndNotYaml) {
  EXPECT_NE(refusal("distributed_type: NO\n", "my.json").find("not JSON"), std::string::npos);
  EXPECT_EQ(refusal(R"({"distributed_type": "NO"})", "my.json"), "");
}

// --- Keys by name
// ----------------------------------------------------------------------------------

TEST(ConfigKey, IsSetAndReadByTheNameOfItsFlag) {
  ClusterConfig config;
  set_config_key(config, "num-processes", "4", "--num-processes");
  set_config_key(config, "fsdp_reshard_after_forward", "true", "--fsdp_reshard_after_forward");
  set_config_key(config, "fsdp-backward-prefetch", "BACKWARD_POST", "");
  set_config_key(config, "fp8_amax_history_len", "16", "");
  set_config_key(config, "fp8_override_linear_precision", "true,false,no", "");
  set_config_key(config, "zero_stage", "2", "");
  EXPECT_EQ(config.num_processes, 4);
  EXPECT_EQ(std::get<bool>(config.fsdp_config.reshard_after_forward.value()), true);
  EXPECT_EQ(config.fp8_config.amax_history_len, 16);
  EXPECT_EQ(config_key_text(config, "fp8_override_linear_precision"), "true,false,false");
  EXPECT_EQ(config_key_text(config, "fsdp_backward_prefetch"), "BACKWARD_POST");
  EXPECT_EQ(config_key_text(config, "zero_stage"), "2");
  EXPECT_EQ(config_key_text(config, "fsdp_version"), std::nullopt);
}

TEST(ConfigKey, RefusesBadValuesAndUnknownNames) {
  ClusterConfig config;
  try {
    set_config_key(config, "num_processes", "0", "--num_processes");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "--num_processes is '0'; allowed is an integer of at least -1 other than 0.");
  }
  EXPECT_THROW(set_config_key(config, "num_proceses", "1", ""), ConfigError);
  EXPECT_THROW(set_config_key(config, "backend", "TE", ""), ConfigError);
}

TEST(ConfigKey, EveryKeyStandsInTheDocumentation) {
  const std::string page = file_text(ACCELERATE_SOURCE_DIR "/docs/config_keys.md");
  EXPECT_GT(config_keys().size(), 100u);
  for (const ConfigKey& key : config_keys()) {
    const auto at = page.find("| `" + key.name + "` | " + key.doc);
    const Flag* flag = find_flag(key.name);
    // Bits are three variables.
    const bool is_told =
        flag != nullptr && flag->status == FlagStatus::carried && flag->kind != FlagKind::bits;
    const std::string variable = is_told ? "`" + variable_of(*flag) + "`" : "";
    const bool is_there = at != std::string::npos &&
                          page.substr(at, page.find('\n', at) - at).find(variable) != page.npos;
    EXPECT_TRUE(is_there) << "add to the section " << key.section << ":\n| `" << key.name << "` | "
                          << key.doc << " | exported as " << variable
                          << " | ClusterConfigGolden, LaunchProtocol |";
    for (const auto& alias : key.aliases)
      EXPECT_NE(page.find("`" + alias + "`"), std::string::npos) << alias;
    EXPECT_FALSE(key.doc.empty()) << key.name;
  }
}

TEST(ConfigKey, VariablesOfTheLaunchersOwnFlagsStandInTheDocumentation) {
  const std::string page = file_text(ACCELERATE_SOURCE_DIR "/docs/environment.md");
  for (const Flag& flag : launch_flags()) {
    if (flag.status != FlagStatus::works || flag.variable.empty()) continue;
    EXPECT_NE(page.find("| `" + flag.variable + "` |"), std::string::npos)
        << "add to 'What a launcher tells its ranks':\n| `" << flag.variable << "` | " << flag.help
        << " | | with `--" << flag.name << "` |";
  }
}

// Every outcome is a configuration, which then survives a round trip, or a ConfigError.
TEST(ClusterConfig, SurvivesMutations) {
  const std::string whole = file_text(kData / "fsdp.yaml") +
                            "fp8_config: {backend: TE}\ndeepspeed_config: {zero_stage: 1}\n";
  std::mt19937 random(11);
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = whole;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const std::size_t at = random() % (text.size() - 8);
      if (random() % 2 == 0) {
        text.erase(at, 1 + random() % 8);
      } else {
        text[at] = ":-{}[]'\"\n #ax0&*!\xff"[random() % 18];
      }
    }
    try {
      const ClusterConfig config = parse(text);
      EXPECT_EQ(parse(to_yaml(config)), config) << text;
      ++accepted;
    } catch (const ConfigError&) {
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_LT(accepted, 3900);
}

}  // namespace
}  // namespace accelerate
