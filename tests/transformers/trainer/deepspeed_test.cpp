// Trainings by DeepSpeed's file: its optimizer and schedule, and what it must not contradict.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/optim/get_scheduler.h"
#include "accelerate/optim/schedules/deepspeed_schedules.h"
#include "accelerate/transformers/trainer/arguments/accelerator_options.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate {
namespace {

using testing::logged;
using testing::message_of;
using testing::small_training;

constexpr std::int64_t kSteps = 6;  // Of small_training().

const std::string kOptimizer =
    R"("optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                                                 "weight_decay": "auto"}})";
const std::string kSchedule =
    R"("scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto",
      "warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}})";

std::string file_with(const std::vector<std::string>& sections) {
  std::string file = R"({"zero_optimization": {"stage": 2}, "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto")";
  for (const auto& section : sections) file += ", " + section;
  return file + "}";
}

class TrainerByDeepSpeed : public ::testing::Test {
 protected:
  TrainingArguments arguments(const std::string& file) {
    auto args = testing::quiet_arguments(folder_.path());
    args.deepspeed = file;
    args.weight_decay = 0.1;
    args.adam_beta1 = 0.8;
    args.adam_epsilon = 1e-6;
    args.warmup_steps = 2;
    return args;
  }

  // An optimizer as the file with its "auto" describes it, of one group.
  static std::shared_ptr<torch::optim::AdamW> adamw_of(const TrainableModel& model) {
    return std::make_shared<torch::optim::AdamW>(
        model.module()->parameters(),
        torch::optim::AdamWOptions(5e-3).weight_decay(0.1).betas({0.8, 0.999}).eps(1e-6));
  }

  std::string refusal_of(TrainingArguments args) {
    return message_of<ConfigError>([&] { (void)Trainer(small_training(args)).train(); });
  }

  testing::TemporaryFolder folder_;
  testing::LogCapture log_;
};

std::vector<double> rates_of(LRScheduler& schedule) {
  std::vector<double> rates;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    rates.push_back(schedule.get_last_lr().front());
    schedule.step();
  }
  return rates;
}

std::shared_ptr<LRScheduler> decaying(torch::optim::Optimizer& optimizer) {
  return make_deepspeed_schedule(
      "WarmupDecayLR", optimizer,
      {.total_num_steps = kSteps, .warmup_max_lr = 5e-3, .warmup_num_steps = 2});
}

TEST_F(TrainerByDeepSpeed, TheFilesOptimizerAndScheduleTrainAsTheProgramsOwn) {
  Trainer by_file(small_training(arguments(file_with({kOptimizer, kSchedule}))));
  (void)by_file.train();
  auto options = small_training(arguments(file_with({})));
  const auto adamw = adamw_of(options.model);
  options.optimizers = {adamw, decaying(*adamw)};
  Trainer by_hand(options);
  (void)by_hand.train();
  EXPECT_TRUE(testing::are_equal(testing::weights_of(by_file.model()),
                                 testing::weights_of(by_hand.model())));
  const auto other = adamw_of(options.model);
  EXPECT_EQ(logged(by_file.state(), "learning_rate"), rates_of(*decaying(*other)));
}

TEST_F(TrainerByDeepSpeed, TheFilesOptimizerGoesWithTheArgumentsSchedule) {
  auto options = small_training(arguments(file_with({kOptimizer})));
  Trainer trainer(options);
  (void)trainer.train();
  const auto adamw = adamw_of(options.model);
  const auto linear =
      get_scheduler("linear", *adamw, {.num_warmup_steps = 2, .num_training_steps = kSteps});
  EXPECT_EQ(logged(trainer.state(), "learning_rate"), rates_of(*linear));
}

TEST_F(TrainerByDeepSpeed, TheFilesScheduleGoesWithTheArgumentsOptimizer) {
  auto args = arguments(file_with({kSchedule}));
  args.optim = "sgd";
  auto options = small_training(args);
  Trainer trainer(options);
  (void)trainer.train();
  const auto adamw = adamw_of(options.model);
  EXPECT_EQ(logged(trainer.state(), "learning_rate"), rates_of(*decaying(*adamw)));
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(TrainerByDeepSpeed, SaysWhichArgumentsTheFileReplaces) {
  auto args = arguments(file_with({kOptimizer, kSchedule}));
  args.optim = "sgd";
  args.lr_scheduler_type = "cosine";
  const Trainer trainer(small_training(args));
  ASSERT_EQ(log_.lines().size(), 2U);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "optim has no effect: the JSON", log_.lines()[0]);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "lr_scheduler_type has no effect", log_.lines()[1]);
}

TEST_F(TrainerByDeepSpeed, ListsAllValuesThatDifferFromTheArguments) {
  auto args = arguments(R"({"zero_optimization": {"stage": 1}, "train_batch_size": 12,
    "train_micro_batch_size_per_gpu": 6, "gradient_accumulation_steps": 2, "gradient_clipping": 0.5,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.98], "eps": 1e-9,
                                              "weight_decay": 0.2}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.002}}})");
  args.gradient_accumulation_steps = 4;
  args.max_grad_norm = 2;
  const auto message = refusal_of(args);
  for (const char* part :
       {"gradient_accumulation_steps is 2 (the JSON of deepspeed_config_file, line 2), and "
        "gradient_accumulation_steps of the arguments is 4",
        "train_micro_batch_size_per_gpu is 6", "per_device_train_batch_size is 4",
        "train_batch_size is 12", "gradient_clipping is 0.5", "max_grad_norm is 2",
        "optimizer.params.lr is 0.001", "learning_rate is 0.005",
        "optimizer.params.betas is [0.9, 0.98]", "[adam_beta1, adam_beta2] is [0.8, 0.999]",
        "optimizer.params.eps is", "optimizer.params.weight_decay is 0.2", "weight_decay is 0.1",
        "scheduler.params.warmup_max_lr is 0.002", "write \"auto\" in DeepSpeed's file"})
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, message);
}

TEST_F(TrainerByDeepSpeed, ListsStepsThatDifferFromTheTraining) {
  const auto message = refusal_of(arguments(
      file_with({R"("scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 9,
           "warmup_max_lr": "auto", "warmup_num_steps": 4}})"})));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "total_num_steps is 9", message);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "the number of steps is 6", message);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "at least 1, is 2", message);
}

TEST_F(TrainerByDeepSpeed, TheFileDecidesWhatIsNotSet) {
  const TrainingArguments args = {
      .deepspeed = R"({"zero_optimization": {"stage": 1}, "gradient_accumulation_steps": 3,
                       "gradient_clipping": 0.25})"};
  EXPECT_EQ(accumulation_steps(args), 3);
  EXPECT_EQ(gradient_norm_limit(args), 0.25);
}

TEST_F(TrainerByDeepSpeed, ExcludesFsdpAndNeedsAFileThatExists) {
  auto args = arguments(file_with({}));
  args.fsdp = "full_shard";
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "deepspeed is set, and fsdp", refusal_of(args));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "'missing.json', which is neither a file",
                      refusal_of(arguments("missing.json")));
}

}  // namespace
}  // namespace accelerate
