// What DeepSpeed's file, the launcher and the program decide together.
#include "accelerate/launch/config/resolved_deepspeed.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/launch/config/deepspeed.h"
#include "accelerate/launch/config/deepspeed_keys.h"
#include "accelerate/launch/config/launched_settings.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::ScopedEnv;

const std::filesystem::path kPublicFiles = ACCELERATE_SOURCE_DIR "/tests/launch/config/deepspeed";

// Two ranks, and a program that says nothing else.
ResolvedDeepSpeed resolved(const std::string& json, DeepSpeedProgram program = {}) {
  program.num_processes = 2;
  return resolve_deepspeed({.hf_ds_config = json}, program);
}

std::string summary_of(const ResolvedDeepSpeed& settings) {
  const ResolvedFsdpOptions& sharding = settings.sharding;
  std::vector<std::string> words = {
      std::string(to_string(sharding.sharding_strategy)),
      std::string(to_string(settings.mixed_precision)),
      "clip " + Node::real(settings.gradient_clipping).text,
      "steps " + (settings.gradient_accumulation_steps
                      ? std::to_string(*settings.gradient_accumulation_steps)
                      : "auto")};
  if (settings.micro_batch_size)
    words.push_back("micro " + std::to_string(*settings.micro_batch_size));
  if (!sharding.offload.parameters_folder.empty() || !sharding.offload.optimizer_folder.empty())
    words.emplace_back("disk");
  else if (sharding.cpu_offload)
    words.emplace_back("cpu");
  if (settings.file->has("optimizer")) words.emplace_back("optimizer");
  if (settings.file->has("scheduler")) words.emplace_back("scheduler");
  return join(words, ", ");
}

// Files in the image of public ones, and what a user would expect of each.
struct PublicFile {
  const char* name;
  const char* outcome;  // summary_of(); after "!", a part of the error
};

const PublicFile kOutcomes[] = {
    {"adapters_zero3", "FULL_SHARD, no, clip 1.0, steps auto"},
    {"adapters_zero3_quantized", "!ZeRO++: frozen parameters in eight bits"},
    {"apex", "!amp.enabled is true, which is refused: serves Python code"},
    {"autocast", "SHARD_GRAD_OP, bf16, clip 1.0, steps auto"},
    {"autotuned", "!autotuning.enabled is true, which is refused: serves Python code"},
    {"batch_sizes_disagree",
     "!4 (train_micro_batch_size_per_gpu) × 2 (gradient_accumulation_steps) × 2 (ranks) is 16"},
    {"chat_hybrid_engine", "!hybrid_engine.enabled is true, which is refused: serves Python code"},
    {"chat_old_names", "FULL_SHARD, bf16, clip 1.0, steps 2, micro 4, cpu"},
    {"chat_sft", "FULL_SHARD, fp16, clip 1.0, steps 1, micro 8"},
    {"examples_cifar", "NO_SHARD, fp16, clip 1.0, steps 1, micro 8, optimizer, scheduler"},
    {"examples_one_cycle", "SHARD_GRAD_OP, no, clip 1.0, steps 1, micro 8, optimizer, scheduler"},
    {"experts_leaf_modules", "FULL_SHARD, bf16, clip 1.0, steps auto"},
    {"factory_autotp", "!tensor_parallel.autotp_size is 4, which is refused: serves Python code"},
    {"factory_zero0", "NO_SHARD, no, clip 1.0, steps auto"},
    {"factory_zero2", "SHARD_GRAD_OP, no, clip 1.0, steps auto"},
    {"factory_zero3_offload", "FULL_SHARD, no, clip 1.0, steps auto, cpu"},
    {"handbook_zero3", "FULL_SHARD, bf16, clip 1.0, steps 4"},
    {"monitored", "SHARD_GRAD_OP, bf16, clip 1.0, steps auto"},
    {"preferences_zero2_offload", "SHARD_GRAD_OP, no, clip 1.0, steps auto, cpu"},
    {"preferences_zero3", "FULL_SHARD, bf16, clip 1.0, steps auto"},
    {"pretraining_mics", "HYBRID_SHARD, bf16, clip 1.0, steps auto"},
    {"pretraining_one_bit", "!optimizer.params.bias_correction is false"},
    {"pretraining_static_scale", "SHARD_GRAD_OP, fp16, clip 1.0, steps 1, micro 2"},
    {"pretraining_zero1", "SHARD_GRAD_OP, fp16, clip 1.0, steps 8, micro 4, optimizer"},
    {"recipes_zero1", "SHARD_GRAD_OP, bf16, clip 1.0, steps auto"},
    {"recipes_zero1_compiled",
     "!compile.deepcompile is true, which is refused: serves Python code"},
    {"recipes_zero2", "SHARD_GRAD_OP, bf16, clip 1.0, steps auto, cpu"},
    {"recipes_zero3", "FULL_SHARD, bf16, clip 1.0, steps auto"},
    {"recipes_zero3_bf16_offload_all", "FULL_SHARD, bf16, clip 1.0, steps auto, cpu"},
    {"trainer_quick_start", "SHARD_GRAD_OP, fp16, clip 1.0, steps 1, micro 4, optimizer"},
    {"trainer_zero0", "NO_SHARD, no, clip 1.0, steps auto"},
    {"trainer_zero1", "SHARD_GRAD_OP, no, clip 1.0, steps auto"},
    {"trainer_zero2", "SHARD_GRAD_OP, no, clip 1.0, steps auto, cpu, optimizer, scheduler"},
    {"trainer_zero3", "FULL_SHARD, no, clip 1.0, steps auto, cpu, optimizer, scheduler"},
    {"trainer_zero3_nvme", "FULL_SHARD, bf16, clip 1.0, steps auto, disk"},
    {"vision_zero2", "SHARD_GRAD_OP, no, clip 1.0, steps auto"},
    {"vision_zero3", "FULL_SHARD, no, clip 1.0, steps auto"},
    {"without_zero", "!has no zero_optimization, which says how a model is sharded"},
    {"zero_hpz", "FULL_SHARD, bf16, clip 1.0, steps auto"},
    {"zero_plus_plus", "!zero_quantized_weights is true, which is refused: an algorithm"},
};

TEST(ResolvedDeepSpeed, PublicFilesHaveTheOutcomeThatAUserExpects) {
  const testing::LogCapture log;
  std::set<std::string> tried;
  for (const PublicFile& one : kOutcomes) {
    const std::string file = kPublicFiles / (std::string(one.name) + ".json");
    tried.insert(std::filesystem::path(file).filename());
    if (one.outcome[0] == '!')
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, one.outcome + 1,
                          message_of<ConfigError>([&] { (void)resolved(file); }));
    else
      EXPECT_EQ(summary_of(resolved(file)), one.outcome) << one.name;
  }
  for (const auto& name : testing::names_in(kPublicFiles))
    EXPECT_TRUE(tried.contains(name)) << name;
}

// Adds the paths of all keys in `map` that the table knows.
void collect(const std::string& prefix, const Node& map, std::set<std::string>& paths) {
  for (const auto& entry : map.entries) {
    const std::string path = prefix + entry.key;
    if (detail::find_deepspeed_key(path) != nullptr) paths.insert(path);
    if (entry.value.is_map()) collect(path + ".", entry.value, paths);
  }
}

TEST(ResolvedDeepSpeed, AtMostAFifthOfTheKeysOfPublicFilesMayBeRefused) {
  std::set<std::string> paths;
  for (const auto& name : testing::names_in(kPublicFiles))
    collect("", read_json(testing::file_text(kPublicFiles / name), name), paths);
  ASSERT_GT(paths.size(), 100U);
  std::size_t refused = 0;
  for (const auto& path : paths)
    refused += detail::is_refused(detail::find_deepspeed_key(path)->fate) ? 1U : 0U;
  EXPECT_LE(refused * 5, paths.size());
}

TEST(ResolvedDeepSpeed, ShardsAsTheFileSays) {
  const auto settings = resolved(kPublicFiles / "trainer_zero3_nvme.json");
  EXPECT_EQ(settings.sharding.offload,
            (DiskOffload{"/local_nvme", "/local_nvme", 2'000'000'000}));  // Two bytes an element.
  EXPECT_EQ(settings.sharding.param_dtype, DType::bf16);
  const auto types = resolved(R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true},
    "communication_data_type": "fp32", "data_types": {"buffer_dtype": "fp32"}})");
  EXPECT_EQ(types.sharding.reduce_dtype, DType::f32);
  EXPECT_EQ(types.sharding.buffer_dtype, DType::f32);
  EXPECT_EQ(types.sharding.param_dtype, DType::bf16);
  const auto experts = resolved(kPublicFiles / "experts_leaf_modules.json");
  EXPECT_EQ(experts.sharding.transformer_cls_names_to_wrap,
            (std::vector<std::string>{"MixtralSparseMoeBlock", "JetMoeBlock"}));
  EXPECT_EQ(resolved(kPublicFiles / "pretraining_mics.json").sharding.shard_group_size, 2);
}

TEST(ResolvedDeepSpeed, ScalesLossesAsTheSectionFp16Says) {
  const auto cifar = resolved(kPublicFiles / "examples_cifar.json");
  EXPECT_EQ(cifar.loss_scaling, (LossScaling{.initial_scale_power = 15, .window = 500}));
  const auto fixed = resolved(kPublicFiles / "pretraining_static_scale.json");
  EXPECT_EQ(fixed.loss_scaling.value().loss_scale, 128);
  EXPECT_EQ(resolved(kPublicFiles / "recipes_zero1.json").loss_scaling, std::nullopt);
  const auto by_program =
      resolved(kPublicFiles / "vision_zero3.json", {.mixed_precision = MixedPrecision::fp16});
  EXPECT_EQ(by_program.loss_scaling, LossScaling{});
}

TEST(ResolvedDeepSpeed, AutoLeavesAKeyToTheProgram) {
  const auto settings = resolve_deepspeed(
      {.hf_ds_config = R"({"zero_optimization": {"stage": "auto"}, "gradient_clipping": "auto",
         "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}, "train_batch_size": 24})",
       .gradient_clipping = 0.5,
       .zero_stage = 3},
      {.mixed_precision = MixedPrecision::bf16,
       .gradient_accumulation_steps = 3,
       .num_processes = 2});
  EXPECT_EQ(summary_of(settings), "FULL_SHARD, bf16, clip 0.5, steps auto, micro 4");
}

TEST(ResolvedDeepSpeed, AFileHasDefaultsOfItsOwn) {
  EXPECT_EQ(summary_of(resolved(R"({"zero_optimization": {}})")),
            "NO_SHARD, no, clip 1.0, steps 1");
  EXPECT_EQ(summary_of(resolved(R"({"zero_optimization": {}, "gradient_clipping": 0})")),
            "NO_SHARD, no, clip 0.0, steps 1");
  EXPECT_EQ(resolve_deepspeed(DeepSpeedPlugin{}, {}).gradient_clipping, 1);
}

TEST(ResolvedDeepSpeed, NamesAllContradictionsTogether) {
  const ScopedEnv stage("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2");
  const std::string file = R"({"gradient_accumulation_steps": 4, "train_batch_size": 30,
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
    "fp16": {"enabled": true}})";
  const auto message = message_of<ConfigError>([&] {
    (void)resolve_deepspeed({.hf_ds_config = file,
                             .gradient_accumulation_steps = 2,
                             .offload_optimizer_device = "nvme"},
                            {.mixed_precision = MixedPrecision::bf16, .num_processes = 2});
  });
  for (
      const char* part :
      {"- gradient_accumulation_steps is 4 (the JSON of deepspeed_config_file, line 1), and "
       "DeepSpeedPlugin's gradient_accumulation_steps is 2",
       "- zero_optimization.stage is 3 (the JSON of deepspeed_config_file, line 2), and "
       "ACCELERATE_DEEPSPEED_ZERO_STAGE is 2",
       "- zero_optimization.offload_optimizer.device is cpu",
       "- fp16.enabled is true (the JSON of deepspeed_config_file, line 3), and mixed_precision is "
       "bf16",
       "- train_batch_size is 30 (the JSON of deepspeed_config_file, line 1), which is no multiple "
       "of 4 (gradient_accumulation_steps) × 2 (ranks)"})
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, message);
}

TEST(ResolvedDeepSpeed, RefusesPrecisionsThatExcludeOneAnother) {
  struct Case {
    const char* json;
    MixedPrecision said;
    const char* message;  // "" for none
  };
  const Case cases[] = {
      {R"("fp16": {"enabled": true}, "bf16": {"enabled": true})", MixedPrecision::no,
       "bf16.enabled and fp16.enabled are both true"},
      {R"("bf16": {"enabled": false})", MixedPrecision::bf16, "bf16.enabled is false"},
      {R"("fp16": {"enabled": true})", MixedPrecision::fp8, "and mixed_precision is fp8"},
      {R"("bf16": {"enabled": true})", MixedPrecision::fp8, ""},
      {R"("bf16": {"enabled": true}, "fp16": {"enabled": false})", MixedPrecision::bf16, ""},
      {R"("bf16": {"enabled": true})", MixedPrecision::no, ""},
      {R"("fp16": {"enabled": "auto"})", MixedPrecision::bf16, ""},
  };
  for (const Case& one : cases) {
    const std::string json =
        "{\"zero_optimization\": {\"stage\": 1}, " + std::string(one.json) + "}";
    const auto resolves = [&] { (void)resolved(json, {.mixed_precision = one.said}); };
    if (one.message[0] == 0)
      EXPECT_NO_THROW(resolves()) << json;
    else
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, one.message, message_of<ConfigError>(resolves));
  }
}

TEST(ResolvedDeepSpeed, TheLaunchersFileIsRead) {
  const std::string path = kPublicFiles / "handbook_zero3.json";
  const ScopedEnv on("ACCELERATE_USE_DEEPSPEED", "true");
  const ScopedEnv named("ACCELERATE_DEEPSPEED_CONFIG_FILE", path.c_str());
  EXPECT_EQ(summary_of(resolve_deepspeed({}, {})), "FULL_SHARD, bf16, clip 1.0, steps 4");
  EXPECT_EQ(launched_accumulation_steps(), 4);
  const ScopedEnv fields("ACCELERATE_CONFIG_DS_FIELDS",
                         "zero3_init_flag,zero_stage,mixed_precision");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "has deepspeed_config_file and zero_stage, mixed_precision, which would",
                      message_of<ConfigError>([] { (void)resolve_deepspeed({}, {}); }));
}

TEST(ResolvedDeepSpeed, WarnsOfKeysThatAProgramAsksForElsewhere) {
  const testing::LogCapture log;
  (void)resolved(kPublicFiles / "monitored.json");
  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "without effect here: csv_monitor.enabled (log_with of AcceleratorOptions "
                      "names trackers); flops_profiler.enabled (Accelerator::profile()",
                      lines[0]);
}

}  // namespace
}  // namespace accelerate
