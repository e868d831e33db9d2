// What an Accelerator is told by its options and the environment: what counts, what is refused.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>

#include "accelerate/accelerate.h"
#include "accelerate/base/text.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/small_net.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::make_net;
using testing::Net;
using testing::on;
using testing::ScopedEnv;

TEST(Training, PrecisionAndStepsComeFromTheEnvironment) {
  const ScopedEnv precision("ACCELERATE_MIXED_PRECISION", "BF16");
  const ScopedEnv steps("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "3");
  Accelerator from_environment(
      {.gradient_accumulation_steps = 2, .communicator = single_communicator()});
  EXPECT_EQ(from_environment.mixed_precision(), MixedPrecision::bf16);
  EXPECT_EQ(from_environment.gradient_accumulation_steps(), 3) << "the variable wins";
  Accelerator with_plugin(
      {.gradient_accumulation_plugin = GradientAccumulationPlugin{.num_steps = 4},
       .communicator = single_communicator()});
  EXPECT_EQ(with_plugin.gradient_accumulation_steps(), 3) << "over the plugin too";
  const auto warnings = [](int asked) {
    const testing::LogCapture log;
    const Accelerator accelerator(
        {.gradient_accumulation_steps = asked, .communicator = single_communicator()});
    return log.lines();
  };
  EXPECT_EQ(warnings(1).size(), 0U);
  EXPECT_EQ(warnings(3).size(), 0U);
  ASSERT_EQ(warnings(2).size(), 1U);
  EXPECT_NE(warnings(2)[0].find("STEPS is 3, and the program's gradient_accumulation_steps 2: the "
                                "variable counts"),
            std::string::npos);
  for (const char* bad : {"0", "-2", "two", "1.5"}) {
    const ScopedEnv wrong("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", bad);
    EXPECT_THROW(Accelerator({.communicator = single_communicator()}), ConfigError) << bad;
  }
  Accelerator chosen(
      {.mixed_precision = MixedPrecision::no, .communicator = single_communicator()});
  EXPECT_EQ(chosen.mixed_precision(), MixedPrecision::no) << "the argument wins";
}

TEST(Accelerator, ValuesOfTheEnvironmentThatCannotBeServedAreRefusedByName) {
  for (const auto& [variable, value] :
       std::map<std::string, const char*>{{"ACCELERATE_USE_MEGATRON_LM", "true"},
                                          {"ACCELERATE_MIXED_PRECISION", "fp8"},
                                          {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "0"},
                                          {"ACCELERATE_TORCH_DEVICE", "cuda:99"},
                                          {"ACCELERATE_TORCH_DEVICE", "toaster"}}) {
    const ScopedEnv scope(variable, value);
    try {
      Accelerator accelerator(on(single_communicator()));
      ADD_FAILURE() << variable;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(variable), std::string::npos) << error.what();
    }
  }
}

TEST(Accelerator, ParallelismThatIsNotThereIsNoReasonToGiveUpSharding) {
  const ScopedEnv scope("ACCELERATE_USE_PARALLELISM_CONFIG", "true");
  const auto message =
      testing::message_of<ConfigError>([] { Accelerator accelerator(on(single_communicator())); });
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "leave the section parallelism_config", message);
  EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, "MULTI_CPU", message);
}

TEST(Accelerator, WarnsOfOptionsWithoutEffect) {
  testing::LogCapture log;
  const AcceleratorOptions with_keywords{
      .ddp = {.find_unused_parameters = true, .comm_hook = DDPCommunicationHookType::fp16},
      .communicator = single_communicator()};
  {
    const Accelerator accelerator(with_keywords);
  }
  EXPECT_EQ(join(log.lines(), "\n"), "");
  {
    const ScopedEnv sharded("ACCELERATE_USE_FSDP", "true");
    const ScopedEnv compiled("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR");
    const Accelerator accelerator(with_keywords);
  }
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "find_unused_parameters, comm_hook of DistributedDataParallelKwargs have no",
                      join(log.lines(), "\n"));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "dynamo_backend is INDUCTOR",
                      join(log.lines(), "\n"));
}

TEST(Accelerator, BadOptionsAreConfigErrors) {
  EXPECT_THROW(
      {
        Accelerator accelerator(
            {.ddp = {.bucket_cap_mb = 0}, .communicator = single_communicator()});
        Net net = make_net();
        (void)accelerator.prepare(net);
      },
      ConfigError);
}

struct BadOptions {
  AcceleratorOptions options;
  const char* message;
};

TEST(Training, ContradictingOptionsAreConfigErrors) {
  const auto comm = single_communicator();
  const BadOptions cases[] = {
      {{.gradient_accumulation_steps = 0, .communicator = comm}, "is 0; allowed is 1 or more"},
      {{.gradient_accumulation_steps = 2,
        .gradient_accumulation_plugin = GradientAccumulationPlugin{.num_steps = 4},
        .communicator = comm},
       "were both given"},
      {{.gradient_accumulation_plugin = GradientAccumulationPlugin{.num_steps = -1},
        .communicator = comm},
       "is -1; allowed is 1 or more"},
      {{.mixed_precision = MixedPrecision::fp8, .communicator = comm},
       "allowed is one of no, fp16, bf16"},
      {{.mixed_precision = MixedPrecision::fp16,
        .grad_scaler = {.growth_factor = 0.5},
        .communicator = comm},
       "growth_factor is 0.5"},
  };
  for (const auto& bad : cases) {
    try {
      Accelerator accelerator(bad.options);
      ADD_FAILURE() << bad.message;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(bad.message), std::string::npos) << error.what();
    }
  }
  Accelerator accelerator({.communicator = comm});
  EXPECT_THROW(accelerator.set_gradient_accumulation_steps(0), ConfigError);
}

}  // namespace
}  // namespace accelerate
