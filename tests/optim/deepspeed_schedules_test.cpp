// DeepSpeed's schedules against DeepSpeed, step by step.
#include "accelerate/optim/schedules/deepspeed_schedules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;

// Gives `field` the option of that name, if the run has it.
template <typename T>
void take_option(const Json& options, const char* name, T& field) {
  if (options.contains(name)) field = options[name].get<T>();
}
template <typename T>
void take_option(const Json& options, const char* name, std::optional<T>& field) {
  if (options.contains(name)) field = options[name].get<T>();
}

DeepSpeedScheduleOptions schedule_options_of(const Json& json) {
  DeepSpeedScheduleOptions options;
  take_option(json, "total_num_steps", options.total_num_steps);
  take_option(json, "warmup_min_lr", options.warmup_min_lr);
  take_option(json, "warmup_max_lr", options.warmup_max_lr);
  take_option(json, "warmup_num_steps", options.warmup_num_steps);
  take_option(json, "warmup_min_ratio", options.warmup_min_ratio);
  take_option(json, "cos_min_ratio", options.cos_min_ratio);
  take_option(json, "cycle_min_lr", options.cycle_min_lr);
  take_option(json, "cycle_max_lr", options.cycle_max_lr);
  take_option(json, "decay_lr_rate", options.decay_lr_rate);
  take_option(json, "cycle_first_step_size", options.cycle_first_step_size);
  take_option(json, "cycle_second_step_size", options.cycle_second_step_size);
  take_option(json, "cycle_first_stair_count", options.cycle_first_stair_count);
  take_option(json, "decay_step_size", options.decay_step_size);
  take_option(json, "cycle_momentum", options.cycle_momentum);
  take_option(json, "cycle_min_mom", options.cycle_min_mom);
  take_option(json, "cycle_max_mom", options.cycle_max_mom);
  take_option(json, "decay_mom_rate", options.decay_mom_rate);
  if (json.value("warmup_type", "log") == "linear") options.warmup_type = WarmupType::linear;
  return options;
}

torch::optim::AdamW two_groups(double first, double second) {
  const auto group = [](double lr) {
    return torch::optim::OptimizerParamGroup({torch::ones(1).requires_grad_()},
                                             std::make_unique<torch::optim::AdamWOptions>(lr));
  };
  return torch::optim::AdamW({group(first), group(second)});
}

TEST(DeepSpeedSchedules, FollowDeepSpeedStepByStep) {
  std::istringstream file(testing::read_reference("deepspeed_schedules.jsonl"));
  int runs = 0;
  for (std::string line; std::getline(file, line); ++runs) {
    const Json run = Json::parse(line);
    auto adamw = two_groups(run["own"][0], run["own"][1]);
    const auto schedule = make_deepspeed_schedule(run["name"].get<std::string>(), adamw,
                                                  schedule_options_of(run["options"]));
    for (const auto& step : run["steps"]) {
      auto& groups = adamw.param_groups();
      EXPECT_NEAR(groups[0].options().get_lr(), step[0].get<double>(), 1e-15) << line;
      EXPECT_NEAR(groups[1].options().get_lr(), step[1].get<double>(), 1e-15) << line;
      const auto& options = static_cast<torch::optim::AdamWOptions&>(groups[0].options());
      EXPECT_NEAR(std::get<0>(options.betas()), step[2].get<double>(), 1e-12) << line;
      EXPECT_EQ(std::get<1>(options.betas()), step[3].get<double>()) << line;
      schedule->step();
    }
  }
  EXPECT_EQ(runs, 24);
}

TEST(DeepSpeedSchedules, RefuseWhatIsMissingOrOutOfRange) {
  auto adamw = two_groups(1, 1);
  const auto refusal_of_schedule = [&](const char* name, const DeepSpeedScheduleOptions& options) {
    return testing::message_of<ConfigError>(
        [&] { (void)make_deepspeed_schedule(name, adamw, options); });
  };
  for (const auto& [message, part] : std::vector<std::pair<std::string, const char*>>{
           {refusal_of_schedule("WarmupLr", {}), "Did you mean 'WarmupLR'?"},
           {refusal_of_schedule("WarmupDecayLR", {}), "total_num_steps is missing"},
           {refusal_of_schedule("WarmupLR", {.warmup_num_steps = 0}), "warmup_num_steps is 0"},
           {refusal_of_schedule("OneCycle", {.cycle_first_step_size = 0}), "first_step_size is 0"}})
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, message);
}

}  // namespace
}  // namespace accelerate
