// Arguments of a training as options of its Accelerator: what code, environment and file say, in
// that order.
#include <gtest/gtest.h>

#include <map>

#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/arguments/accelerator_options.h"
#include "tests/launch/config/fsdp_environment.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using Plugin = FullyShardedDataParallelPlugin;
using Variables = std::map<std::string, std::string>;

// The launcher's variables, all others of sharding and precision unset.
class LauncherVariables {
 public:
  explicit LauncherVariables(const Variables& variables = {}) : fsdp_(variables) {
    for (const char* name :
         {"ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_MIXED_PRECISION",
          "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"}) {
      const auto value = variables.find(name);
      others_.push_back(std::make_unique<testing::ScopedEnv>(
          name, value == variables.end() ? nullptr : value->second.c_str()));
    }
  }

 private:
  testing::FsdpEnvironment fsdp_;
  std::vector<std::unique_ptr<testing::ScopedEnv>> others_;
};

AcceleratorOptions options_of(const TrainingArguments& args) {
  return accelerator_options(resolved(args));
}

ResolvedFsdpOptions sharding_of_args(const TrainingArguments& args) {
  return resolve(options_of(args).fsdp_plugin.value(), MixedPrecision::no);
}

std::string refusal_of_options(const TrainingArguments& args) {
  return message_of<ConfigError>([&] { (void)options_of(args); });
}

// --- Whether -------------------------------------------------------------------------------------

TEST(AcceleratorOptionsOfArguments, NothingIsShardedUnlessSomebodySaysSo) {
  const LauncherVariables variables;
  EXPECT_FALSE(options_of({}).fsdp_plugin.has_value());
  EXPECT_FALSE(options_of({.fsdp = false}).fsdp_plugin.has_value());
  EXPECT_TRUE(options_of({.fsdp = true}).fsdp_plugin.has_value());
  EXPECT_TRUE(options_of({.fsdp_strategy = "full_shard"}).fsdp_plugin.has_value());
  EXPECT_TRUE(
      options_of({.fsdp_config = FullyShardedDataParallelPlugin{}}).fsdp_plugin.has_value());
}

TEST(AcceleratorOptionsOfArguments, TheLaunchersShardingStaysAsTheEnvironmentSays) {
  const LauncherVariables variables(Variables{{"ACCELERATE_USE_FSDP", "true"}});
  EXPECT_FALSE(options_of({}).fsdp_plugin.has_value());
  EXPECT_TRUE(options_of({.fsdp = "full_shard"}).fsdp_plugin.has_value());
}

TEST(AcceleratorOptionsOfArguments, DeepSpeedOfTheLauncherAndFsdpExcludeEachOther) {
  const LauncherVariables variables(Variables{{"ACCELERATE_USE_DEEPSPEED", "true"}});
  EXPECT_FALSE(options_of({}).fsdp_plugin.has_value());
  expect_has(refusal_of_options({.fsdp = "full_shard"}), "ACCELERATE_USE_DEEPSPEED");
  expect_has(refusal_of_options({.fsdp_config = FullyShardedDataParallelPlugin{}}),
             "fsdp_config is set");
}

// --- How -----------------------------------------------------------------------------------------

TEST(AcceleratorOptionsOfArguments, WordsSayTheStrategy) {
  const LauncherVariables variables;
  const testing::LogCapture quiet;
  using enum ShardingStrategy;
  EXPECT_EQ(sharding_of_args({.fsdp = true}).sharding_strategy, FULL_SHARD);
  EXPECT_EQ(sharding_of_args({.fsdp = "shard_grad_op"}).sharding_strategy, SHARD_GRAD_OP);
  EXPECT_EQ(sharding_of_args({.fsdp = "no_shard"}).sharding_strategy, NO_SHARD);
  EXPECT_EQ(sharding_of_args({.fsdp = "hybrid_shard"}).sharding_strategy, HYBRID_SHARD);
  EXPECT_EQ(sharding_of_args({.fsdp = "hybrid_shard_zero2"}).sharding_strategy, HYBRID_SHARD_ZERO2);
  EXPECT_TRUE(sharding_of_args({.fsdp = "full_shard offload"}).cpu_offload);
  EXPECT_FALSE(sharding_of_args({.fsdp = "full_shard auto_wrap"}).cpu_offload);
  const FullyShardedDataParallelPlugin second{.fsdp_version = 2};
  EXPECT_EQ(sharding_of_args({.fsdp_config = second, .fsdp = "shard_grad_op"}).sharding_strategy,
            SHARD_GRAD_OP);
  expect_has(refusal_of_options({.fsdp_config = second, .fsdp = "no_shard"}), "fsdp_version to 1");
}

TEST(AcceleratorOptionsOfArguments, WhatNobodySaysIsAsTransformersHasIt) {
  const LauncherVariables variables;
  const auto settings = sharding_of_args({.fsdp = "full_shard"});
  EXPECT_EQ(settings.version, 1);
  EXPECT_EQ(settings.auto_wrap_policy, AutoWrapPolicy::TRANSFORMER_BASED_WRAP);
  EXPECT_EQ(settings.state_dict_type, StateDictType::FULL_STATE_DICT);
  EXPECT_TRUE(settings.sync_module_states);
}

TEST(AcceleratorOptionsOfArguments, TwoStrategiesInCodeContradictOneAnother) {
  const LauncherVariables variables;
  const FullyShardedDataParallelPlugin config{.sharding_strategy = ShardingStrategy::NO_SHARD};
  expect_has(refusal_of_options({.fsdp_config = config, .fsdp = "full_shard"}), "NO_SHARD");
  EXPECT_EQ(sharding_of_args({.fsdp_config = config, .fsdp = true}).sharding_strategy,
            ShardingStrategy::NO_SHARD);
  EXPECT_EQ(sharding_of_args({.fsdp_config = config, .fsdp = "no_shard"}).sharding_strategy,
            ShardingStrategy::NO_SHARD);
}

TEST(AcceleratorOptionsOfArguments, APluginIsTakenAsItIs) {
  const LauncherVariables variables(Variables{{"FSDP_MIN_NUM_PARAMS", "7"}});
  const Plugin plugin{.auto_wrap_policy = AutoWrapPolicy::SIZE_BASED_WRAP,
                      .limit_all_gathers = false,
                      .min_num_params = 5,
                      .full_parameters = FullParametersHome::gathered};
  const auto settings = sharding_of_args({.fsdp_config = plugin});
  EXPECT_EQ(settings.min_num_params, 5);
  EXPECT_FALSE(settings.limit_all_gathers);
  EXPECT_EQ(settings.full_parameters, FullParametersHome::gathered);
}

// --- Files ---------------------------------------------------------------------------------------

constexpr const char* kWholeFile =
    "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
    "num_processes: 2\nfsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
    "  fsdp_backward_prefetch_policy: BACKWARD_PRE\n  fsdp_forward_prefetch: true\n"
    "  fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_offload_params: true\n"
    "  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_sync_module_states: false\n"
    "  fsdp_transformer_layer_cls_to_wrap: BertLayer,Head\n  fsdp_use_orig_params: true\n"
    "  fsdp_ignored_modules: head.*\n";

TEST(AcceleratorOptionsOfArguments, AFileOfAccelerateConfigSaysHow) {
  const LauncherVariables variables;
  const testing::TemporaryFolder folder;
  const TrainingArguments args{.fsdp_config = folder.write("fsdp.yaml", kWholeFile)};
  const auto settings = sharding_of_args(args);
  EXPECT_EQ(settings.sharding_strategy, ShardingStrategy::SHARD_GRAD_OP);
  EXPECT_EQ(settings.backward_prefetch, BackwardPrefetch::BACKWARD_PRE);
  EXPECT_TRUE(settings.forward_prefetch);
  EXPECT_TRUE(settings.cpu_offload);
  EXPECT_FALSE(settings.sync_module_states);
  EXPECT_EQ(settings.state_dict_type, StateDictType::SHARDED_STATE_DICT);
  EXPECT_EQ(settings.transformer_cls_names_to_wrap,
            (std::vector<std::string>{"BertLayer", "Head"}));
  EXPECT_EQ(settings.ignored_modules, std::vector<std::string>{"head.*"});
  EXPECT_EQ(options_of(args).mixed_precision, MixedPrecision::bf16);
}

TEST(AcceleratorOptionsOfArguments, ASectionAloneIsAFileToo) {
  const LauncherVariables variables;
  const testing::TemporaryFolder folder;
  const auto strategy = [&](const std::string& name, const std::string& text) {
    return sharding_of_args({.fsdp_config = folder.write(name, text)}).sharding_strategy;
  };
  using enum ShardingStrategy;
  EXPECT_EQ(strategy("a.yaml", "fsdp_sharding_strategy: NO_SHARD\n"), NO_SHARD);
  EXPECT_EQ(strategy("a.json", R"({"version": 2, "reshard_after_forward": false})"), SHARD_GRAD_OP);
  EXPECT_EQ(strategy("b.yaml", "mixed_precision: fp16\nfsdp_config: {sharding_strategy: 3}\n"),
            NO_SHARD);
  const auto file = folder.write("c.yaml", "mixed_precision: fp16\nfsdp_config: {}\n");
  EXPECT_EQ(options_of({.fsdp_config = file}).mixed_precision, MixedPrecision::fp16);
}

TEST(AcceleratorOptionsOfArguments, FaultsOfAFileAreNamed) {
  const LauncherVariables variables;
  const testing::TemporaryFolder folder;
  const auto refusal = [&](const std::string& text) {
    return refusal_of_options({.fsdp_config = folder.write("x.yaml", text)});
  };
  expect_has(refusal("version: 1\nsharding_strategi: NO_SHARD\n"),
             "x.yaml, line 2: unknown key 'sharding_strategi'. Did you mean");
  expect_has(refusal("fsdp_config: {}\nnum_processes: 2\n"), "'num_processes' stands beside");
  expect_has(refusal("- 1\n"), "holds a list");
  expect_has(refusal("distributed_type: MULTI_CPU\nnum_processes: 2\n"),
             "has distributed_type 'MULTI_CPU'");
  expect_has(refusal_of_options({.fsdp_config = "no/such/file"}), "'no/such/file', cannot be read");
}

// --- Precedence ----------------------------------------------------------------------------------

TEST(AcceleratorOptionsOfArguments, TheEnvironmentCountsMoreThanTheFile) {
  const LauncherVariables variables(Variables{{"FSDP_SHARDING_STRATEGY", "NO_SHARD"},
                                              {"FSDP_OFFLOAD_PARAMS", "false"},
                                              {"FSDP_STATE_DICT_TYPE", "LOCAL_STATE_DICT"},
                                              {"FSDP_TRANSFORMER_CLS_TO_WRAP", "Other"},
                                              {"FSDP_BACKWARD_PREFETCH", "BACKWARD_POST"},
                                              {"FSDP_FORWARD_PREFETCH", "false"},
                                              {"FSDP_SYNC_MODULE_STATES", "true"},
                                              {"FSDP_IGNORED_MODULES", "tail"},
                                              {"ACCELERATE_MIXED_PRECISION", "fp16"}});
  const testing::TemporaryFolder folder;
  const TrainingArguments args{.fsdp_config = folder.write("fsdp.yaml", kWholeFile)};
  const testing::LogCapture log;
  const auto settings = sharding_of_args(args);
  ASSERT_EQ(log.lines().size(), 1U);
  for (const char* overruled :
       {"mixed_precision bf16 to ACCELERATE_MIXED_PRECISION=fp16",
        "fsdp_sharding_strategy SHARD_GRAD_OP to FSDP_SHARDING_STRATEGY=NO_SHARD",
        "fsdp_transformer_layer_cls_to_wrap BertLayer,Head to FSDP_TRANSFORMER_CLS_TO_WRAP=Other",
        "fsdp_ignored_modules head.* to FSDP_IGNORED_MODULES=tail"})
    expect_has(log.lines()[0], overruled);
  EXPECT_EQ(settings.sharding_strategy, ShardingStrategy::NO_SHARD);
  EXPECT_FALSE(settings.cpu_offload);
  EXPECT_EQ(settings.state_dict_type, StateDictType::LOCAL_STATE_DICT);
  EXPECT_EQ(settings.transformer_cls_names_to_wrap, std::vector<std::string>{"Other"});
  EXPECT_EQ(settings.backward_prefetch, BackwardPrefetch::BACKWARD_POST);
  EXPECT_FALSE(settings.forward_prefetch);
  EXPECT_TRUE(settings.sync_module_states);
  EXPECT_EQ(settings.ignored_modules, std::vector<std::string>{"tail"});
  EXPECT_EQ(options_of(args).mixed_precision, MixedPrecision::fp16);
}

TEST(AcceleratorOptionsOfArguments, CodeCountsMoreThanBoth) {
  const LauncherVariables variables(Variables{{"FSDP_SHARDING_STRATEGY", "NO_SHARD"},
                                              {"FSDP_OFFLOAD_PARAMS", "false"},
                                              {"ACCELERATE_MIXED_PRECISION", "fp16"}});
  const testing::TemporaryFolder folder;
  const TrainingArguments args{.fsdp_config = folder.write("fsdp.yaml", kWholeFile),
                               .fsdp = "full_shard offload",
                               .bf16 = true};
  EXPECT_EQ(sharding_of_args(args).sharding_strategy, ShardingStrategy::FULL_SHARD);
  EXPECT_TRUE(sharding_of_args(args).cpu_offload);
  EXPECT_EQ(options_of(args).mixed_precision, MixedPrecision::bf16);
  const FullyShardedDataParallelPlugin config{.sharding_strategy = ShardingStrategy::SHARD_GRAD_OP};
  EXPECT_EQ(sharding_of_args({.fsdp_config = config}).sharding_strategy,
            ShardingStrategy::SHARD_GRAD_OP);
}

TEST(AcceleratorOptionsOfArguments, FalseRulesOutAPrecision) {
  const LauncherVariables variables(Variables{{"ACCELERATE_MIXED_PRECISION", "bf16"}});
  EXPECT_EQ(options_of({}).mixed_precision, MixedPrecision::bf16);
  EXPECT_EQ(options_of({.bf16 = false}).mixed_precision, MixedPrecision::no);
  EXPECT_EQ(options_of({.fp16 = false}).mixed_precision, MixedPrecision::bf16);
  EXPECT_EQ(options_of({.fp16 = true}).mixed_precision, MixedPrecision::fp16);
  const testing::ScopedEnv broken("ACCELERATE_MIXED_PRECISION", "bf61");
  expect_has(refusal_of_options({}), "ACCELERATE_MIXED_PRECISION is 'bf61'");
}

TEST(AcceleratorOptionsOfArguments, AnEnvironmentThatAgreesWithTheFileIsNotWorthALine) {
  const LauncherVariables variables(Variables{{"FSDP_SHARDING_STRATEGY", "shard_grad_op"},
                                              {"FSDP_OFFLOAD_PARAMS", "True"},
                                              {"ACCELERATE_MIXED_PRECISION", "bf16"}});
  const testing::TemporaryFolder folder;
  const testing::LogCapture log;
  (void)options_of({.fsdp_config = folder.write("fsdp.yaml", kWholeFile)});
  EXPECT_TRUE(log.lines().empty());
}

TEST(AcceleratorOptionsOfArguments, AFileOfTheProgramCountsMoreThanALauncherThatWasNotAsked) {
  const LauncherVariables variables(Variables{{"ACCELERATE_USE_FSDP", "true"}});
  const testing::TemporaryFolder folder;
  const testing::LogCapture log;
  const auto settings = sharding_of_args(
      {.fsdp_config = folder.write("two.yaml",
                                   "fsdp_version: 2\nfsdp_reshard_after_forward: false\n"
                                   "fsdp_cpu_ram_efficient_loading: false\n")});
  EXPECT_EQ(settings.version, 2);
  EXPECT_EQ(settings.sharding_strategy, ShardingStrategy::SHARD_GRAD_OP);
  EXPECT_FALSE(settings.cpu_ram_efficient_loading);
  EXPECT_TRUE(settings.sync_module_states);  // Models were read before the file was.
  EXPECT_TRUE(log.lines().empty());
}

TEST(GradientNormLimit, IsTheLaunchersUnlessTheArgumentSaysAnother) {
  const LauncherVariables variables(Variables{{"ACCELERATE_USE_DEEPSPEED", "true"}});
  const testing::ScopedEnv clipping("ACCELERATE_GRADIENT_CLIPPING", "0.25");
  const testing::LogCapture log;
  EXPECT_EQ(gradient_norm_limit({}), 0.25);
  EXPECT_TRUE(log.lines().empty());
  EXPECT_EQ(gradient_norm_limit({.max_grad_norm = 3}), 3);
  EXPECT_EQ(gradient_norm_limit({.max_grad_norm = 0}), 0);
  ASSERT_EQ(log.lines().size(), 2U);
  expect_has(log.lines()[0], "gradient_clipping of the launcher's deepspeed_config 0.25");
  const testing::ScopedEnv off("ACCELERATE_USE_DEEPSPEED", nullptr);
  EXPECT_EQ(gradient_norm_limit({}), 1.0);
}

TEST(AccumulationSteps, AreTheArgumentsThenTheLaunchers) {
  const LauncherVariables variables(Variables{{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "8"}});
  EXPECT_EQ(accumulation_steps({}), 8);
  const testing::LogCapture log;
  EXPECT_EQ(accumulation_steps({.gradient_accumulation_steps = 8}), 8);
  EXPECT_EQ(log.lines().size(), 0U);
  EXPECT_EQ(accumulation_steps({.gradient_accumulation_steps = 1}), 1);
  ASSERT_EQ(log.lines().size(), 1U);
  expect_has(log.lines()[0], "ACCELERATE_GRADIENT_ACCUMULATION_STEPS 8: grad");
  EXPECT_EQ(options_of({.gradient_accumulation_steps = 4}).gradient_accumulation_steps, 1);
  const testing::ScopedEnv none("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", nullptr);
  EXPECT_EQ(accumulation_steps({}), 1);
  const testing::ScopedEnv zero("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "0");
  expect_has(message_of<ConfigError>([] { (void)accumulation_steps({}); }), "allowed is 1 or more");
}

TEST(RecomputesActivations, ByTheArgumentOrByTheKeyOfSharding) {
  const LauncherVariables variables;
  const auto checkpoints = [](const TrainingArguments& args) {
    return accelerator_options(resolved(args)).gradient_checkpointing.has_value();
  };
  EXPECT_FALSE(checkpoints({}));
  EXPECT_FALSE(checkpoints({.fsdp = true}));
  EXPECT_TRUE(checkpoints({.gradient_checkpointing = true}));
  EXPECT_TRUE(checkpoints({.activation_checkpointing = true}));
  const FullyShardedDataParallelPlugin config{.activation_checkpointing = true};
  EXPECT_TRUE(sharding_of_args({.fsdp_config = config}).activation_checkpointing);
  EXPECT_FALSE(sharding_of_args({.fsdp = true}).activation_checkpointing);
}

TEST(RecomputesActivations, ByTheLauncher) {
  const LauncherVariables variables(
      Variables{{"ACCELERATE_USE_FSDP", "true"}, {"FSDP_ACTIVATION_CHECKPOINTING", "true"}});
  EXPECT_FALSE(accelerator_options(resolved({})).fsdp_plugin);  // The launcher says all.
  EXPECT_TRUE(resolve({}, MixedPrecision::no).activation_checkpointing);
}

// --- The rest ------------------------------------------------------------------------------------

TEST(AcceleratorOptionsOfArguments, LoadersAndRanks) {
  const LauncherVariables variables;
  const auto options = options_of({.data_seed = 9,
                                   .ddp_bucket_cap_mb = 3,
                                   .ddp_broadcast_buffers = false,
                                   .ddp_static_graph = true,
                                   .ddp_backend = "gloo",
                                   .ddp_timeout = 60,
                                   .accelerator_config = {.split_batches = true,
                                                          .dispatch_batches = false,
                                                          .even_batches = false,
                                                          .use_seedable_sampler = false,
                                                          .non_blocking = true},
                                   .use_cpu = true});
  EXPECT_TRUE(options.cpu);
  EXPECT_EQ(options.init_process_group.timeout, std::chrono::seconds(60));
  EXPECT_EQ(options.init_process_group.backend, "gloo");
  EXPECT_EQ(options.ddp.bucket_cap_mb, 3);
  EXPECT_FALSE(options.ddp.broadcast_buffers);
  EXPECT_TRUE(options.ddp.static_graph);
  EXPECT_TRUE(options.dataloader_config.split_batches);
  EXPECT_EQ(options.dataloader_config.dispatch_batches, false);
  EXPECT_FALSE(options.dataloader_config.even_batches);
  EXPECT_FALSE(options.dataloader_config.use_seedable_sampler);
  EXPECT_TRUE(options.dataloader_config.non_blocking);
  EXPECT_EQ(options.dataloader_config.data_seed, 9U);
}

TEST(AcceleratorOptionsOfArguments, UnusedParametersAreAllowedUnlessLayersAreComputedAgain) {
  const LauncherVariables variables;
  EXPECT_TRUE(options_of({}).ddp.find_unused_parameters);
  EXPECT_FALSE(options_of({.gradient_checkpointing = true}).ddp.find_unused_parameters);
  EXPECT_FALSE(options_of({.ddp_find_unused_parameters = false}).ddp.find_unused_parameters);
  EXPECT_TRUE(given_keywords(options_of({.fsdp = true}).ddp).empty());
}

}  // namespace
}  // namespace accelerate
