// What sharded training is told by the program, the launcher's variables and neither.
#include "accelerate/launch/config/fsdp_plugin.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "tests/launch/config/fsdp_environment.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::FsdpEnvironment;
using testing::ScopedEnv;
using Plugin = FullyShardedDataParallelPlugin;
using Variables = std::map<std::string, std::string>;

std::string refusal(const Plugin& plugin, const Variables& variables = {}) {
  const FsdpEnvironment environment(variables);
  try {
    (void)resolve(plugin, MixedPrecision::no);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

ResolvedFsdpOptions settings_under(const Variables& variables, const Plugin& plugin = {},
                                   MixedPrecision mixed_precision = MixedPrecision::no) {
  const FsdpEnvironment environment(variables);
  return resolve(plugin, mixed_precision);
}

TEST(FsdpPlugin, FindsTheMissionsFileInWhatItsLauncherExports) {
  const ResolvedFsdpOptions settings =
      settings_under({{"FSDP_VERSION", "1"},
                      {"FSDP_SHARDING_STRATEGY", "FULL_SHARD"},
                      {"FSDP_RESHARD_AFTER_FORWARD", "true"},
                      {"FSDP_OFFLOAD_PARAMS", "false"},
                      {"FSDP_MIN_NUM_PARAMS", "100000000"},
                      {"FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP"},
                      {"FSDP_TRANSFORMER_CLS_TO_WRAP", "BertLayer"},
                      {"FSDP_BACKWARD_PREFETCH", "BACKWARD_PRE"},
                      {"FSDP_STATE_DICT_TYPE", "SHARDED_STATE_DICT"},
                      {"FSDP_FORWARD_PREFETCH", "false"},
                      {"FSDP_USE_ORIG_PARAMS", "true"},
                      {"FSDP_CPU_RAM_EFFICIENT_LOADING", "true"},
                      {"FSDP_SYNC_MODULE_STATES", "true"},
                      {"FSDP_ACTIVATION_CHECKPOINTING", "false"}},
                     {}, MixedPrecision::bf16);
  ResolvedFsdpOptions expected;
  expected.backward_prefetch = BackwardPrefetch::BACKWARD_PRE;
  expected.param_dtype = expected.reduce_dtype = expected.buffer_dtype = DType::bf16;
  expected.auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  expected.transformer_cls_names_to_wrap = {"BertLayer"};
  expected.state_dict_type = StateDictType::SHARDED_STATE_DICT;
  expected.use_orig_params = true;
  expected.cpu_ram_efficient_loading = true;
  expected.sync_module_states = true;
  EXPECT_EQ(settings, expected);
}

TEST(FsdpPlugin, LetsTheProgramWinOverTheLauncher) {
  const ResolvedFsdpOptions settings =
      settings_under({{"FSDP_SHARDING_STRATEGY", "NO_SHARD"}, {"FSDP_OFFLOAD_PARAMS", "true"}},
                     {.sharding_strategy = ShardingStrategy::SHARD_GRAD_OP, .cpu_offload = false});
  EXPECT_EQ(settings.sharding_strategy, ShardingStrategy::SHARD_GRAD_OP);
  EXPECT_FALSE(settings.cpu_offload);
}

TEST(FsdpPlugin, HonoursTheStrategyThatVersionOneFilesKeepUnderReshardAfterForward) {
  EXPECT_EQ(settings_under({{"FSDP_SHARDING_STRATEGY", "FULL_SHARD"},
                            {"FSDP_RESHARD_AFTER_FORWARD", "shard_grad_op"}})
                .sharding_strategy,
            ShardingStrategy::SHARD_GRAD_OP);
  EXPECT_EQ(
      settings_under({}, {.reshard_after_forward = ShardingStrategy::NO_SHARD}).sharding_strategy,
      ShardingStrategy::NO_SHARD);
}

TEST(FsdpPlugin, GroupsOfVersionTwoMakeItsStrategyHybrid) {
  const Plugin plugin{.fsdp_version = 2, .reshard_after_forward = false, .shard_group_size = 2};
  EXPECT_EQ(settings_under({}, plugin).sharding_strategy, ShardingStrategy::HYBRID_SHARD_ZERO2);
  EXPECT_EQ(settings_under({{"FSDP_VERSION", "2"}, {"ACCELERATE_FSDP_SHARD_GROUP_SIZE", "2"}})
                .sharding_strategy,
            ShardingStrategy::HYBRID_SHARD);
}

TEST(FsdpPlugin, TakesTheHomeOfFullParametersFromItsVariable) {
  EXPECT_EQ(settings_under({{"ACCELERATE_FSDP_FULL_PARAMETERS", "shared_pages"}}).full_parameters,
            FullParametersHome::shared_pages);
}

TEST(FsdpPlugin, AsksForWhatTheLauncherAskedFor) {
  const ScopedEnv off("ACCELERATE_USE_FSDP", nullptr);
  EXPECT_FALSE(use_fsdp());
  const ScopedEnv on("ACCELERATE_USE_FSDP", "true");
  EXPECT_TRUE(use_fsdp());
}

TEST(FsdpPlugin, WarnsOfWhatHasNoEffect) {
  struct Case {
    Plugin plugin;
    Variables variables;
    const char* warning;  // a part of it; "" for none
  };
  // clang-format off
  const Case cases[] = {
      {{}, {}, ""},
      {{.fsdp_version = 2}, {{"FSDP_SYNC_MODULE_STATES", "true"}}, ""},
      {{.sync_module_states = false}, {{"FSDP_CPU_RAM_EFFICIENT_LOADING", "true"}}, "sync_module_states is false, but"},
      {{.cpu_ram_efficient_loading = true}, {{"FSDP_SYNC_MODULE_STATES", "False"}}, "FSDP_SYNC_MODULE_STATES is false, but"},
      {{.cpu_ram_efficient_loading = true}, {}, ""},
      {{}, {{"FSDP_CPU_RAM_EFFICIENT_LOADING", "true"}}, ""},
      {{.sync_module_states = true, .cpu_ram_efficient_loading = true}, {}, ""},
      {{.fsdp_version = 2,
        .sharding_strategy = ShardingStrategy::NO_SHARD,
        .reshard_after_forward = true},
       {},
       "reshard_after_forward decides"},
      {{.fsdp_version = 2}, {{"FSDP_BACKWARD_PREFETCH", "BACKWARD_PRE"}}, "always gathers ahead"},
      {{.fsdp_version = 2}, {{"FSDP_FORWARD_PREFETCH", "true"}}, "fsdp_forward_prefetch has no"},
      {{.fsdp_version = 2}, {{"FSDP_FORWARD_PREFETCH", "false"}}, ""},
      {{.fsdp_version = 2}, {{"FSDP_SHARDING_STRATEGY", "NO_SHARD"}}, "fsdp_sharding_strategy is NO_SHARD"},
      {{.fsdp_version = 2}, {{"FSDP_SHARDING_STRATEGY", "full_shard"}}, ""},
      {{.fsdp_version = 2, .shard_group_size = 2}, {{"FSDP_SHARDING_STRATEGY", "HYBRID_SHARD"}}, ""},
      {{.fsdp_version = 2, .reshard_after_forward = true}, {{"FSDP_SHARDING_STRATEGY", "NO_SHARD"}}, ""},
      {{}, {{"FSDP_USE_ORIG_PARAMS", "false"}}, "use_orig_params is false"},
      {{.use_orig_params = false}, {}, "use_orig_params is false"},
      {{.use_orig_params = true}, {}, ""},
      {{}, {{"FSDP_RESHARD_AFTER_FORWARD", "true"}}, ""},
      {{}, {{"FSDP_RESHARD_AFTER_FORWARD", "False"}}, "fsdp_reshard_after_forward is false"},
      {{}, {{"FSDP_RESHARD_AFTER_FORWARD", "false"}, {"FSDP_SHARDING_STRATEGY", "HYBRID_SHARD"}}, "are freed after forward (HYBRID_SHARD)"},
      {{}, {{"FSDP_RESHARD_AFTER_FORWARD", "false"}, {"FSDP_SHARDING_STRATEGY", "SHARD_GRAD_OP"}}, ""},
      {{.sharding_strategy = ShardingStrategy::FULL_SHARD}, {{"FSDP_RESHARD_AFTER_FORWARD", "false"}}, ""},
      {{.fsdp_version = 2, .use_orig_params = true}, {}, "always keeps the parameters"},
      {{.fsdp_version = 2, .sync_module_states = true}, {}, "cpu_ram_efficient_loading decides"},
  };
  // clang-format on
  for (const Case& one : cases) {
    const testing::LogCapture log;
    (void)settings_under(one.variables, one.plugin);
    const auto lines = log.lines();
    ASSERT_EQ(lines.empty(), std::string(one.warning).empty()) << one.warning;
    if (!lines.empty()) {
      EXPECT_EQ(lines.size(), 1U);
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, one.warning, lines[0]);
    }
  }
}

TEST(FsdpPlugin, RefusesWithWhatWasFoundWhatIsAllowedAndACure) {
  using enum ShardingStrategy;
  struct Case {
    Plugin plugin;
    Variables variables;
    const char* message;  // a part of it
  };
  // clang-format off
  const Case cases[] = {
      {{}, {{"FSDP_VERSION", "3"}}, "FSDP_VERSION is '3'; allowed is an integer from 1 to 2"},
      {{}, {{"FSDP_VERSION", "two"}}, "FSDP_VERSION is 'two'"},
      {{.fsdp_version = 0}, {}, "fsdp_version is 0; allowed are 1 and 2"},
      {{}, {{"FSDP_SHARDING_STRATEGY", "FULL_SHRAD"}}, "Did you mean 'FULL_SHARD'?"},
      {{.fsdp_version = 2}, {{"FSDP_SHARDING_STRATEGY", "FULL_SHRAD"}}, "Did you mean 'FULL_SHARD'?"},
      {{}, {{"FSDP_SHARDING_STRATEGY", "6"}}, "FSDP_SHARDING_STRATEGY is '6'; allowed is one of FULL_SHARD, "},
      {{}, {{"FSDP_SHARDING_STRATEGY", "NO_SHARD"}, {"FSDP_RESHARD_AFTER_FORWARD", "hybrid_shard"}}, "two names of the same setting"},
      {{.sharding_strategy = NO_SHARD, .reshard_after_forward = FULL_SHARD}, {}, "sharding_strategy is NO_SHARD and reshard_after_forward is FULL_SHARD"},
      {{.reshard_after_forward = true}, {}, "reshard_after_forward is a boolean with fsdp_version 1"},
      {{.fsdp_version = 2, .reshard_after_forward = FULL_SHARD}, {}, "allowed are true (FULL_SHARD) and false (SHARD_GRAD_OP)"},
      {{.fsdp_version = 2, .sharding_strategy = FULL_SHARD}, {}, "set reshard_after_forward to true"},
      {{}, {{"FSDP_VERSION", "2"}, {"FSDP_RESHARD_AFTER_FORWARD", "FULL_SHARD"}}, "FSDP_RESHARD_AFTER_FORWARD is 'FULL_SHARD'"},
      {{}, {{"FSDP_RESHARD_AFTER_FORWARD", "SHARD_GRADOP"}}, "FSDP_RESHARD_AFTER_FORWARD is 'SHARD_GRADOP'; allowed is true, false or one of FULL_SHARD, "},
      {{}, {{"FSDP_RESHARD_AFTER_FORWARD", "SHARD_GRADOP"}}, "Did you mean 'SHARD_GRAD_OP'?"},
      {{}, {{"FSDP_OFFLOAD_PARAMS", "perhaps"}}, "FSDP_OFFLOAD_PARAMS is 'perhaps'"},
      {{}, {{"FSDP_BACKWARD_PREFETCH", "3"}}, "FSDP_BACKWARD_PREFETCH is '3'; allowed is one of BACKWARD_PRE, BACKWARD_POST, NO_PREFETCH"},
      {{.fsdp_version = 2, .forward_prefetch = false}, {}, "forward_prefetch is set with fsdp_version 2"},
      {{}, {{"FSDP_STATE_DICT_TYPE", "SHARDED"}}, "FSDP_STATE_DICT_TYPE is 'SHARDED'"},
      {{.fsdp_version = 2, .state_dict_type = StateDictType::LOCAL_STATE_DICT}, {}, "allowed are SHARDED_STATE_DICT and FULL_STATE_DICT"},
      {{}, {{"FSDP_AUTO_WRAP_POLICY", "WRAP"}}, "allowed is one of TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP"},
      {{.auto_wrap_policy = AutoWrapPolicy::SIZE_BASED_WRAP, .min_num_params = -1}, {}, "min_num_params is -1; allowed is 0 or more"},
      {{}, {{"FSDP_AUTO_WRAP_POLICY", "SIZE_BASED_WRAP"}, {"FSDP_MIN_NUM_PARAMS", "many"}}, "FSDP_MIN_NUM_PARAMS is 'many'"},
      {{}, {{"FSDP_IGNORED_MODULES", "head["}}, "ignored_modules has 'head['"},
      {{.ignored_modules = {{"a", "(?<x>b"}}}, {}, "not an ECMAScript regular expression"},
      {{.activation_checkpointing_offload = true}, {}, "Set both, or leave both out"},
      {{.activation_checkpointing = true, .activation_checkpointing_offload = true}, {}, "it needs 2"},
      {{}, {{"FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", "true"}}, "Set both, or leave both out"},
      {{}, {{"FSDP_ACTIVATION_CHECKPOINTING", "maybe"}}, "FSDP_ACTIVATION_CHECKPOINTING is 'maybe'"},
      {{.mixed_precision_policy = "bf61"}, {}, "Did you mean 'bf16'?"},
      {{.mixed_precision_policy = MixedPrecisionPolicy{.reduce_dtype = DType::i64}}, {}, "mixed_precision_policy.reduce_dtype is I64; allowed are F16, BF16 and F32"},
      {{.mixed_precision_policy = MixedPrecisionPolicy{.output_dtype = DType::f32}}, {}, "output_dtype is set with fsdp_version 1"},
      {{.fsdp_version = 2, .mixed_precision_policy = MixedPrecisionPolicy{.buffer_dtype = DType::f32}}, {}, "buffer_dtype is set with fsdp_version 2"},
      {{.shard_group_size = -2}, {}, "shard_group_size is -2; allowed are 0 to "},
      {{.sharding_strategy = FULL_SHARD, .shard_group_size = 2}, {}, "only HYBRID_SHARD and HYBRID_SHARD_ZERO2 have groups"},
      {{}, {{"ACCELERATE_FSDP_SHARD_GROUP_SIZE", "5000000000"}}, "ACCELERATE_FSDP_SHARD_GROUP_SIZE is 5000000000"},
      {{}, {{"ACCELERATE_FSDP_FULL_PARAMETERS", "pages"}}, "allowed are automatic, gathered, shared_pages"},
  };
  // clang-format on
  for (const Case& bad : cases) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, bad.message, refusal(bad.plugin, bad.variables));
  }
}

}  // namespace
}  // namespace accelerate
