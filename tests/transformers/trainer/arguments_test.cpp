// What arguments of a training may be, and what one decides for another.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_has;
using Args = TrainingArguments;

std::string refusal_of_args(const Args& args) {
  return testing::message_of<ConfigError>([&] { validate(args); });
}

Args with(const std::function<void(Args&)>& change) {
  Args args;
  change(args);
  return args;
}

// The founding documents' example, word by word.
TEST(TrainingArguments, TakeTheFoundingExample) {
  TrainingArguments training_args{.output_dir = "your-model",
                                  .learning_rate = 2e-5,
                                  .per_device_train_batch_size = 16,
                                  .per_device_eval_batch_size = 16,
                                  .num_train_epochs = 2,
                                  .fsdp_config = "path/to/fsdp_config",
                                  .fsdp = "full_shard",
                                  .weight_decay = 0.01,
                                  .eval_strategy = "epoch",
                                  .save_strategy = "epoch",
                                  .load_best_model_at_end = true,
                                  .push_to_hub = true};
  const Args args = resolved(training_args);
  EXPECT_EQ(args.metric_for_best_model, "loss");
  EXPECT_EQ(args.greater_is_better, false);
  EXPECT_TRUE(args.do_eval);
  EXPECT_EQ(args.run_name, "your-model");
}

TEST(TrainingArguments, TakeTheOtherNameOfFsdp) {
  const Args args = resolved({.fsdp_strategy = "full_shard"});
  EXPECT_EQ(args.fsdp, FsdpOption("full_shard"));
  EXPECT_TRUE(args.fsdp_strategy.empty());
  expect_has(refusal_of_args({.fsdp = "full_shard", .fsdp_strategy = "no_shard"}), "two names");
  validate({.fsdp = "full_shard", .fsdp_strategy = "FULL_SHARD"});
}

// --- Types that convert --------------------------------------------------------------------------

TEST(FsdpOption, TakesWordsHoweverTheyAreGiven) {
  const std::vector<std::string> both = {"full_shard", "offload"};
  EXPECT_EQ(FsdpOption("Full_Shard offload").words(), both);
  EXPECT_EQ(FsdpOption("full_shard,offload").words(), both);
  EXPECT_EQ(FsdpOption({"full_shard", "offload", "full_shard"}).words(), both);
  EXPECT_EQ(FsdpOption(true).words(), std::vector<std::string>{"true"});
  EXPECT_TRUE(FsdpOption(false).empty());
  EXPECT_TRUE(FsdpOption("").empty());
  EXPECT_TRUE(FsdpOption("False").empty());
}

TEST(ResumeOption, IsNowhereTheNewestOrAFolder) {
  EXPECT_TRUE(ResumeOption().empty());
  EXPECT_TRUE(ResumeOption("False").empty());
  EXPECT_TRUE(ResumeOption(true).newest());
  EXPECT_TRUE(ResumeOption("True").newest());
  EXPECT_EQ(ResumeOption("out/checkpoint-3").folder(), "out/checkpoint-3");
  EXPECT_FALSE(ResumeOption("out/checkpoint-3").newest());
}

TEST(Word, SaysWhatIsAllowedAndTheNearest) {
  const auto message =
      testing::message_of<ConfigError>([] { (void)Args{.eval_strategy = "epochs"}; });
  expect_has(message, "'epochs' is not one of no, steps, epoch. Did you mean 'epoch'?");
  EXPECT_EQ(Args{.save_strategy = "BEST"}.save_strategy, SaveStrategy::best);
}

// --- Ranges --------------------------------------------------------------------------------------

struct OutOfRange {
  const char* name;
  std::function<void(Args&)> low;
  std::function<void(Args&)> fits;
};

const std::vector<OutOfRange>& ranges() {
  static const std::vector<OutOfRange> kRanges = {
      {"output_dir", [](Args& a) { a.output_dir = ""; }, [](Args& a) { a.output_dir = "x"; }},
      {"learning_rate", [](Args& a) { a.learning_rate = -1e-9; },
       [](Args& a) { a.learning_rate = 0; }},
      {"per_device_train_batch_size", [](Args& a) { a.per_device_train_batch_size = 0; },
       [](Args& a) { a.per_device_train_batch_size = 1; }},
      {"per_device_eval_batch_size", [](Args& a) { a.per_device_eval_batch_size = -1; },
       [](Args& a) { a.per_device_eval_batch_size = 1; }},
      {"num_train_epochs", [](Args& a) { a.num_train_epochs = 0; },
       [](Args& a) { a.num_train_epochs = 0.1; }},
      {"weight_decay", [](Args& a) { a.weight_decay = -0.1; }, [](Args& a) { a.weight_decay = 2; }},
      {"max_steps", [](Args& a) { a.max_steps = -2; }, [](Args& a) { a.max_steps = 0; }},
      {"gradient_accumulation_steps", [](Args& a) { a.gradient_accumulation_steps = 0; },
       [](Args& a) { a.gradient_accumulation_steps = 1; }},
      {"max_grad_norm", [](Args& a) { a.max_grad_norm = -1; },
       [](Args& a) { a.max_grad_norm = 0; }},
      {"warmup_steps", [](Args& a) { a.warmup_steps = 1.5; },
       [](Args& a) { a.warmup_steps = 0.5; }},
      {"warmup_ratio", [](Args& a) { a.warmup_ratio = 1; }, [](Args& a) { a.warmup_ratio = 0.9; }},
      {"adam_beta1", [](Args& a) { a.adam_beta1 = 1; }, [](Args& a) { a.adam_beta1 = 0; }},
      {"adam_beta2", [](Args& a) { a.adam_beta2 = -0.1; }, [](Args& a) { a.adam_beta2 = 0.5; }},
      {"adam_epsilon", [](Args& a) { a.adam_epsilon = -1; }, [](Args& a) { a.adam_epsilon = 0; }},
      {"label_smoothing_factor", [](Args& a) { a.label_smoothing_factor = 1.1; },
       [](Args& a) { a.label_smoothing_factor = 1; }},
      {"torch_empty_cache_steps", [](Args& a) { a.torch_empty_cache_steps = 0; },
       [](Args& a) { a.torch_empty_cache_steps = 1; }},
      {"neftune_noise_alpha", [](Args& a) { a.neftune_noise_alpha = -1; },
       [](Args& a) { a.neftune_noise_alpha = 5; }},
      {"logging_steps", [](Args& a) { a.logging_steps = -1; },
       [](Args& a) { a.logging_steps = 0.5; }},
      {"eval_steps", [](Args& a) { a.eval_steps = 2.5; }, [](Args& a) { a.eval_steps = 2; }},
      {"eval_delay", [](Args& a) { a.eval_delay = -1; }, [](Args& a) { a.eval_delay = 1.5; }},
      {"eval_accumulation_steps", [](Args& a) { a.eval_accumulation_steps = 0; },
       [](Args& a) { a.eval_accumulation_steps = 1; }},
      {"save_steps", [](Args& a) { a.save_steps = 1.5; }, [](Args& a) { a.save_steps = 1; }},
      {"save_total_limit", [](Args& a) { a.save_total_limit = -1; },
       [](Args& a) { a.save_total_limit = 0; }},
      {"dataloader_num_workers", [](Args& a) { a.dataloader_num_workers = -1; },
       [](Args& a) { a.dataloader_num_workers = 4; }},
      {"max_tokens_per_batch", [](Args& a) { a.max_tokens_per_batch = 0; },
       [](Args& a) { a.max_tokens_per_batch = 1; }},
      {"ddp_bucket_cap_mb", [](Args& a) { a.ddp_bucket_cap_mb = 0; },
       [](Args& a) { a.ddp_bucket_cap_mb = 0.5; }},
      {"ddp_timeout", [](Args& a) { a.ddp_timeout = 0; }, [](Args& a) { a.ddp_timeout = 1; }},
      {"ddp_backend", [](Args& a) { a.ddp_backend = "mpi"; },
       [](Args& a) { a.ddp_backend = "gloo"; }},
      {"lr_scheduler_type", [](Args& a) { a.lr_scheduler_type = "cosin"; },
       [](Args& a) { a.lr_scheduler_type = "cosine"; }},
      {"include_for_metrics", [](Args& a) { a.include_for_metrics = "labels"; },
       [](Args& a) { a.include_for_metrics = {"inputs", "loss"}; }},
      {"fsdp", [](Args& a) { a.fsdp = "half_shard"; },
       [](Args& a) { a.fsdp = "full_shard offload"; }},
      {"report_to", [](Args& a) { a.report_to = "wandb"; },
       [](Args& a) { a.report_to = {"tensorboard", "jsonl"}; }},
  };
  return kRanges;
}

TEST(TrainingArguments, AreRefusedByNameWhenTheyAreOutOfRange) {
  for (const auto& [name, low, fits] : ranges()) {
    expect_has(refusal_of_args(with(low)), name);
    expect_has(refusal_of_args(with(low)), "allowed");
    EXPECT_NO_THROW(validate(with(fits))) << name;
  }
}

TEST(TrainingArguments, AreNoNumbersThatAreNone) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_has(refusal_of_args({.learning_rate = value}), "'learning_rate' is '");
    expect_has(refusal_of_args({.max_grad_norm = value}), "'max_grad_norm' is '");
  }
}

TEST(TrainingArguments, RefusalsSayWhatWasFoundAndWhatIsAllowed) {
  EXPECT_EQ(refusal_of_args({.learning_rate = -1}),
            "'learning_rate' is '-1.0'; allowed is a number of at least 0.0.");
  EXPECT_EQ(refusal_of_args({.adam_beta2 = 1}),
            "'adam_beta2' is '1.0'; allowed is a number from 0.0 to below 1.0.");
  expect_has(refusal_of_args({.lr_scheduler_type = "cosin"}), "Did you mean 'cosine'?");
}

// --- Contradictions ------------------------------------------------------------------------------

TEST(TrainingArguments, TheBestModelNeedsAnEvaluationForEachCheckpoint) {
  const auto message = refusal_of_args({.eval_strategy = "epoch", .load_best_model_at_end = true});
  expect_has(message, "eval_strategy is 'epoch' and save_strategy is 'steps'");
  const Args steps{.eval_strategy = "steps", .load_best_model_at_end = true, .eval_steps = 200};
  expect_has(refusal_of_args(steps),
             "save_steps is 500, which is not a multiple of eval_steps, 200");
  Args shares = steps;
  shares.eval_steps = 0.1;
  expect_has(refusal_of_args(shares), "Give both as shares or both as numbers");
  shares.save_steps = 0.2;
  validate(shares);
  shares.save_steps = 0.25;
  expect_has(refusal_of_args(shares), "not a multiple");
  validate({.eval_strategy = "steps", .load_best_model_at_end = true, .eval_steps = 250});
}

TEST(TrainingArguments, SavingTheBestNeedsAMetricAndEvaluations) {
  expect_has(refusal_of_args({.eval_strategy = "epoch", .save_strategy = "best"}),
             "metric_for_best_model is absent");
  expect_has(refusal_of_args({.save_strategy = "best", .metric_for_best_model = "f1"}),
             "nothing would ever be saved");
  validate({.eval_strategy = "epoch", .save_strategy = "best", .metric_for_best_model = "f1"});
  validate({.eval_strategy = "epoch", .save_strategy = "best", .load_best_model_at_end = true});
}

TEST(TrainingArguments, NoStepsAreNoInterval) {
  expect_has(refusal_of_args({.logging_steps = 0}), "Set logging_strategy to 'no'");
  expect_has(refusal_of_args({.save_steps = 0}), "Set save_strategy to 'no'");
  expect_has(refusal_of_args({.eval_strategy = "steps", .eval_steps = 0}), "'eval_steps' is 0");
  expect_has(
      refusal_of_args({.eval_strategy = "steps", .logging_strategy = "no", .logging_steps = 0}),
      "'logging_steps' is 0 with eval_strategy");
  validate({.logging_strategy = "no", .logging_steps = 0});
  validate({.save_strategy = "no", .save_steps = 0});
}

TEST(TrainingArguments, ContradictionsAreNamedWithTheirCure) {
  expect_has(refusal_of_args({.bf16 = true, .fp16 = true}), "bf16 and fp16 are both true");
  validate({.bf16 = true, .fp16 = false});
  expect_has(refusal_of_args({.bf16_full_eval = true, .fp16_full_eval = true}), "at most one");
  expect_has(refusal_of_args({.lr_scheduler_type = "greedy"}), "which watches a metric");
  expect_has(refusal_of_args({.warmup_steps = 10, .warmup_ratio = 0.1}), "two names of one thing");
  expect_has(refusal_of_args({.dataloader_prefetch_factor = 2}), "Set dataloader_num_workers");
  expect_has(refusal_of_args({.optim_args = "momentum"}), "'momentum' is not a setting");
  validate({.optim_args = "momentum=0.9,nesterov=true"});
  expect_has(refusal_of_args({.report_to = {"none", "csv"}}), "Remove 'none'");
  expect_has(refusal_of_args({.fsdp = "full_shard no_shard"}), "allowed is one way of sharding");
}

// --- What one decides for another ----------------------------------------------------------------

TEST(Resolved, StepsOfEvaluationAreThoseOfLogging) {
  EXPECT_EQ(resolved({.eval_strategy = "steps", .logging_steps = 20}).eval_steps, 20);
  EXPECT_EQ(resolved({.eval_strategy = "steps", .eval_steps = 7}).eval_steps, 7);
  EXPECT_EQ(resolved({.eval_strategy = "epoch"}).eval_steps, std::nullopt);
}

TEST(Resolved, TheMetricIsTheLossAndItsNameSaysWhatIsGood) {
  EXPECT_EQ(resolved({}).metric_for_best_model, "");
  EXPECT_EQ(resolved({}).greater_is_better, std::nullopt);
  const Args plateau{.eval_strategy = "epoch", .lr_scheduler_type = "reduce_lr_on_plateau"};
  EXPECT_EQ(resolved(plateau).metric_for_best_model, "loss");
  EXPECT_EQ(resolved({.metric_for_best_model = "eval_loss"}).greater_is_better, false);
  EXPECT_EQ(resolved({.metric_for_best_model = "accuracy"}).greater_is_better, true);
  const Args said{.metric_for_best_model = "accuracy", .greater_is_better = false};
  EXPECT_EQ(resolved(said).greater_is_better, false);
}

TEST(Resolved, AliasesAreOneArgument) {
  EXPECT_EQ(resolved({.warmup_ratio = 0.1}).warmup_steps, 0.1);
  EXPECT_EQ(resolved({.warmup_ratio = 0.1}).warmup_ratio, std::nullopt);
  EXPECT_EQ(resolved({.warmup_steps = 12, .warmup_ratio = 0}).warmup_steps, 12);
  EXPECT_TRUE(resolved({.activation_checkpointing = true}).gradient_checkpointing);
  EXPECT_TRUE(resolved({.gradient_checkpointing = true}).activation_checkpointing);
  EXPECT_FALSE(resolved({}).gradient_checkpointing);
}

TEST(Resolved, TrackersFoldersLimitsAndMemory) {
  const testing::ScopedEnv home("HOME", "/home/me");
  EXPECT_TRUE(resolved({.report_to = "none"}).report_to.empty());
  EXPECT_EQ(resolved({.report_to = "all"}).report_to, Words("all"));
  EXPECT_EQ(resolved({.output_dir = "~/out"}).output_dir, "/home/me/out");
  EXPECT_EQ(resolved({.output_dir = "~/out"}).run_name, "/home/me/out");
  EXPECT_EQ(resolved({.run_name = "mine"}).run_name, "mine");
  EXPECT_EQ(resolved({.save_total_limit = 0}).save_total_limit, std::nullopt);
  EXPECT_FALSE(resolved({.use_cpu = true}).dataloader_pin_memory);
  EXPECT_TRUE(resolved({}).dataloader_pin_memory);
  EXPECT_TRUE(resolved({.eval_strategy = "steps"}).do_eval);
  EXPECT_FALSE(resolved({}).do_eval);
}

TEST(Resolved, RefusesWhatValidateRefuses) {
  EXPECT_THROW((void)resolved({.learning_rate = -1}), ConfigError);
}

}  // namespace
}  // namespace accelerate
