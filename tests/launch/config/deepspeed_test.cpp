// ZeRO stages as sharding strategies, and what the launcher's variables say of them.
#include "accelerate/launch/config/deepspeed.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "accelerate/launch/config/resolved_deepspeed.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::ScopedEnv;
using Variables = std::map<std::string, std::string>;

DeepSpeedConfig config_under(const Variables& variables) {
  std::vector<std::unique_ptr<ScopedEnv>> set;
  for (const char* name :
       {"ACCELERATE_DEEPSPEED_CONFIG_FILE", "ACCELERATE_DEEPSPEED_ZERO_STAGE",
        "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
        "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
        "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH",
        "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
        "ACCELERATE_GRADIENT_CLIPPING", "ACCELERATE_DEEPSPEED_ZERO3_INIT",
        "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL",
        "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES"}) {
    const auto value = variables.find(name);
    set.push_back(std::make_unique<ScopedEnv>(
        name, value == variables.end() ? nullptr : value->second.c_str()));
  }
  return deepspeed_config_from_env();
}

ShardingStrategy strategy_at(int stage) {
  DeepSpeedConfig config;
  config.zero_stage = stage;
  return settings_of(config, MixedPrecision::no).sharding_strategy;
}

TEST(DeepSpeed, StagesAreStrategies) {
  EXPECT_EQ(strategy_at(0), ShardingStrategy::NO_SHARD);
  EXPECT_EQ(strategy_at(1), ShardingStrategy::SHARD_GRAD_OP);
  EXPECT_EQ(strategy_at(2), ShardingStrategy::SHARD_GRAD_OP);
  EXPECT_EQ(strategy_at(3), ShardingStrategy::FULL_SHARD);
  EXPECT_EQ(settings_of({}, MixedPrecision::no).sharding_strategy, ShardingStrategy::SHARD_GRAD_OP);
}

TEST(DeepSpeed, OffloadsWhenEitherDeviceIsTheCpu) {
  DeepSpeedConfig config;
  EXPECT_FALSE(settings_of(config, MixedPrecision::no).cpu_offload);
  config.offload_optimizer_device = "cpu";
  EXPECT_TRUE(settings_of(config, MixedPrecision::no).cpu_offload);
  config = {.zero_stage = 3, .offload_optimizer_device = "none", .offload_param_device = "CPU"};
  EXPECT_TRUE(settings_of(config, MixedPrecision::no).cpu_offload);
}

TEST(DeepSpeed, ComputesInTheAcceleratorsPrecision) {
  EXPECT_EQ(settings_of({}, MixedPrecision::no).param_dtype, std::nullopt);
  EXPECT_EQ(settings_of({}, MixedPrecision::fp16).param_dtype, DType::f16);
  EXPECT_EQ(settings_of({}, MixedPrecision::bf16).reduce_dtype, DType::bf16);
  EXPECT_EQ(settings_of({}, MixedPrecision::fp8).buffer_dtype, DType::bf16);
}

TEST(DeepSpeed, CutsUnitsBySizeAndLeavesLayersOfExpertsInOnePiece) {
  const ResolvedFsdpOptions by_size = settings_of({}, MixedPrecision::no);
  EXPECT_EQ(by_size.auto_wrap_policy, AutoWrapPolicy::SIZE_BASED_WRAP);
  EXPECT_EQ(by_size.min_num_params, 1'000'000);
  const ResolvedFsdpOptions by_class =
      settings_of({.deepspeed_moe_layer_cls_names = "MixtralMoe, JetMoe,"}, MixedPrecision::no);
  EXPECT_EQ(by_class.auto_wrap_policy, AutoWrapPolicy::TRANSFORMER_BASED_WRAP);
  EXPECT_EQ(by_class.transformer_cls_names_to_wrap,
            (std::vector<std::string>{"MixtralMoe", "JetMoe"}));
}

TEST(DeepSpeed, ClipsAsTheLauncherSaysElseToANormOfOne) {
  const auto clipping = [](const char* variable) {
    const ScopedEnv said("ACCELERATE_GRADIENT_CLIPPING", variable);
    return resolve_deepspeed({}, {}).gradient_clipping;
  };
  EXPECT_EQ(clipping("0.5"), 0.5);
  EXPECT_EQ(clipping("0"), 0);
  EXPECT_EQ(clipping("auto"), 1.0);
  EXPECT_EQ(clipping(nullptr), 1.0);
  EXPECT_EQ(resolve_deepspeed({.gradient_clipping = 0.0}, {}).gradient_clipping, 0);
}

TEST(DeepSpeed, RefusesMsAmpAsTheTableDoes) {
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring,
      "enable_msamp is true, which is refused: serves Python code (MS-AMP, a Python library)",
      message_of<ConfigError>([] { (void)resolve_deepspeed({.enable_msamp = true}, {}); }));
  EXPECT_NO_THROW((void)resolve_deepspeed({.enable_msamp = false, .msamp_opt_level = "O2"}, {}));
}

TEST(DeepSpeed, SaysWhatToUseForKeysWithoutEffect) {
  struct Case {
    DeepSpeedConfig config;
    MixedPrecision mixed_precision;
    const char* warning;  // a part of it; "" for none
  };
  const Case cases[] = {
      {{.zero3_init_flag = true}, MixedPrecision::no, "init_empty_weights()"},
      {{.offload_param_nvme_path = "/disk"}, MixedPrecision::no, "offload_param_nvme_path is '/d"},
      {{.offload_optimizer_nvme_path = "none"}, MixedPrecision::no, ""},
      {{.zero3_save_16bit_model = true},
       MixedPrecision::bf16,
       "cast what get_state_dict() returns"},
      {{.zero3_save_16bit_model = true}, MixedPrecision::no, ""},
      {{.zero3_init_flag = false, .zero3_save_16bit_model = false}, MixedPrecision::bf16, ""},
  };
  for (const Case& one : cases) {
    const testing::LogCapture log;
    (void)settings_of(one.config, one.mixed_precision);
    const auto lines = log.lines();
    ASSERT_EQ(lines.size(), std::string(one.warning).empty() ? 0U : 1U) << one.warning;
    if (lines.empty()) continue;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, one.warning, lines[0]);
  }
}

// The environments are those that Python Accelerate's launcher exports.
TEST(DeepSpeed, FindsItsKeysInWhatTheOriginalsLauncherExports) {
  const auto golden = nlohmann::json::parse(testing::read_reference("launch_env_golden.json"));
  std::map<std::string, DeepSpeedConfig> configs;
  for (const auto& row : golden["rows"]) {
    if (row["launcher"] == "deepspeed") configs[row["name"]] = config_under(row["environment"]);
  }
  ASSERT_EQ(configs.size(), 3U);
  EXPECT_EQ(configs["file: DeepSpeed"], (DeepSpeedConfig{.zero_stage = 3,
                                                         .offload_optimizer_device = "cpu",
                                                         .gradient_accumulation_steps = 4,
                                                         .gradient_clipping = 0.5,
                                                         .zero3_init_flag = true,
                                                         .zero3_save_16bit_model = false}));
  EXPECT_EQ(configs["deepspeed, every flag"],
            (DeepSpeedConfig{.deepspeed_config_file = "zero.json",
                             .zero_stage = 3,
                             .offload_optimizer_device = "cpu",
                             .offload_param_device = "nvme",
                             .gradient_accumulation_steps = 8,
                             .gradient_clipping = 1,
                             .zero3_init_flag = true,
                             .zero3_save_16bit_model = false,
                             .deepspeed_moe_layer_cls_names = "MixtralSparseMoeBlock"}));
}

TEST(DeepSpeed, AutoAndNoneAreNotSaid) {
  EXPECT_EQ(config_under({{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "auto"},
                          {"ACCELERATE_GRADIENT_CLIPPING", "auto"},
                          {"ACCELERATE_DEEPSPEED_CONFIG_FILE", "none"}}),
            DeepSpeedConfig{});
}

TEST(DeepSpeed, AsksForWhatTheLauncherAskedFor) {
  const ScopedEnv off("ACCELERATE_USE_DEEPSPEED", nullptr);
  EXPECT_FALSE(use_deepspeed());
  const ScopedEnv on("ACCELERATE_USE_DEEPSPEED", "true");
  EXPECT_TRUE(use_deepspeed());
}

TEST(DeepSpeed, NvmeNamesAFolder) {
  const auto settings = settings_of({.zero_stage = 3,
                                     .offload_optimizer_device = "nvme",
                                     .offload_param_device = "NVMe",
                                     .offload_optimizer_nvme_path = "/disk/a",
                                     .offload_param_nvme_path = "/disk/b"},
                                    MixedPrecision::no);
  EXPECT_EQ(settings.offload, (DiskOffload{"/disk/b", "/disk/a"}));
  EXPECT_TRUE(settings.cpu_offload);
  const auto optimizer = settings_of({.zero_stage = 1,
                                      .offload_optimizer_device = "nvme",
                                      .offload_param_device = "none",
                                      .offload_optimizer_nvme_path = "/disk/a"},
                                     MixedPrecision::no);
  EXPECT_EQ(optimizer.offload, (DiskOffload{"", "/disk/a"}));
}

TEST(DeepSpeed, RefusesWithWhatWasFoundAndACure) {
  struct Case {
    Variables variables;
    const char* message;  // a part of it
  };
  const Case cases[] = {
      {{{"ACCELERATE_DEEPSPEED_ZERO_STAGE", "4"}}, "ACCELERATE_DEEPSPEED_ZERO_STAGE"},
      {{{"ACCELERATE_DEEPSPEED_ZERO_STAGE", "two"}}, "two"},
      {{{"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "gpu"}}, "gpu"},
      {{{"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "nvme"}},
       "offload_optimizer_device is nvme without offload_optimizer_nvme_path: name a folder"},
      {{{"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "nvme"},
        {"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH", "/disk"}},
       "offload_param_device is nvme with zero_stage 2"},
      {{{"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "cpu"}},
       "offload_param_device is cpu with zero_stage 2"},
      {{{"ACCELERATE_GRADIENT_CLIPPING", "-1"}}, "ACCELERATE_GRADIENT_CLIPPING"},
      {{{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "0"}}, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"},
  };
  for (const Case& bad : cases) {
    const auto message = testing::message_of<ConfigError>(
        [&] { (void)settings_of(config_under(bad.variables), MixedPrecision::no); });
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, bad.message, message);
  }
  DeepSpeedConfig config;
  config.zero_stage = -1;
  EXPECT_THROW((void)settings_of(config, MixedPrecision::no), ConfigError);
}

}  // namespace
}  // namespace accelerate
