// Checks the arguments of a training, and fills in what follows from others.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"
#include "accelerate/transformers/trainer/arguments/sections.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "accelerate/watch/trackers/tracker.h"

namespace accelerate {
namespace {

using Args = TrainingArguments;

std::string shown(double value) {
  return detail::one_line(value == std::trunc(value) && std::fabs(value) < 1e15
                              ? Node::integer(static_cast<std::int64_t>(value))
                              : Node::real(value));
}

// Checks each argument alone: a value that its line in the table does not read is not allowed.
void check_each(const Args& args) {
  Args scratch;
  for (const auto& key : detail::argument_table().keys) {
    const auto value = key.write(args);
    if (!value || value->is_null()) continue;
    if (!key.read(scratch, *value)) throw ConfigError(detail::refused_value(key, *value));
  }
  if (args.output_dir.empty())
    throw ConfigError("'output_dir' is ''; allowed is the path of a folder, such as 'my-model'");
}

bool watches_metric(const Args& args) {
  return args.lr_scheduler_type == "reduce_lr_on_plateau" || args.lr_scheduler_type == "greedy";
}

double effective_eval_steps(const Args& args) {
  return args.eval_steps.value_or(args.logging_steps);
}

void check_steps(const Args& args) {
  const auto refuse = [](const std::string& strategy, const std::string& steps,
                         const std::string& cure) {
    throw ConfigError("'" + steps + "' is 0 with " + strategy +
                      " 'steps'; allowed is a number above 0. " + cure);
  };
  if (args.logging_strategy == IntervalStrategy::steps && args.logging_steps == 0)
    refuse("logging_strategy", "logging_steps", "Set logging_strategy to 'no' to log nothing.");
  if (args.eval_strategy == IntervalStrategy::steps && effective_eval_steps(args) == 0)
    refuse("eval_strategy", args.eval_steps ? "eval_steps" : "logging_steps",
           "Set eval_steps, or eval_strategy to 'no' or 'epoch'.");
  if (args.save_strategy == SaveStrategy::steps && args.save_steps == 0)
    refuse("save_strategy", "save_steps", "Set save_strategy to 'no' to save nothing.");
}

// Throws unless every checkpoint follows an evaluation. Shares are compared in millionths, as in
// Python.
void check_multiple(double save, double eval) {
  if (std::fmod(save, eval) == 0) return;
  const bool one_share = (save < 1) != (eval < 1);
  if (one_share)
    throw ConfigError("load_best_model_at_end is true, save_steps is " + shown(save) +
                      " and eval_steps is " + shown(eval) +
                      ": a share of all steps and a number of steps, so it is unknown whether each "
                      "checkpoint has an evaluation. Give both as shares or both as numbers.");
  constexpr double kMillion = 1'000'000;
  if (save < 1 && std::fmod(save * kMillion, eval * kMillion) == 0) return;
  throw ConfigError("load_best_model_at_end is true and save_steps is " + shown(save) +
                    ", which is not a multiple of eval_steps, " + shown(eval) +
                    ", so that some checkpoints would have no evaluation. Set save_steps to a "
                    "multiple of eval_steps.");
}

void check_best_model(const Args& args) {
  const bool saves_best = args.save_strategy == SaveStrategy::best;
  if (saves_best && args.metric_for_best_model.empty() && !args.load_best_model_at_end &&
      !watches_metric(args)) {
    throw ConfigError(
        "save_strategy is 'best' and metric_for_best_model is absent; allowed is the name of a "
        "metric. Set metric_for_best_model, for instance to 'loss'.");
  }
  if (saves_best && args.eval_strategy == IntervalStrategy::no)
    throw ConfigError(
        "save_strategy is 'best' and eval_strategy is 'no', so that nothing would ever be saved. "
        "Set eval_strategy to 'steps' or 'epoch'.");
  if (!args.load_best_model_at_end || saves_best) return;
  if (args.eval_strategy.text() != args.save_strategy.text())
    throw ConfigError("load_best_model_at_end is true, eval_strategy is '" +
                      std::string(args.eval_strategy.text()) + "' and save_strategy is '" +
                      std::string(args.save_strategy.text()) +
                      "'; they must be the same, so that each checkpoint has an evaluation. Set "
                      "both to 'epoch' or both to 'steps', or save_strategy to 'best'.");
  if (args.eval_strategy == IntervalStrategy::steps)
    check_multiple(args.save_steps, effective_eval_steps(args));
}

void check_precision(const Args& args) {
  if (args.bf16.value_or(false) && args.fp16.value_or(false))
    throw ConfigError(
        "bf16 and fp16 are both true; at most one of them may be. bf16 is the safer one where the "
        "hardware has it.");
  if (args.bf16_full_eval && args.fp16_full_eval)
    throw ConfigError(
        "bf16_full_eval and fp16_full_eval are both true; at most one of them may be.");
}

void check_schedule(const Args& args) {
  if (watches_metric(args) && args.eval_strategy == IntervalStrategy::no)
    throw ConfigError("lr_scheduler_type is '" + args.lr_scheduler_type +
                      "', which watches a metric, and eval_strategy is 'no'. Set eval_strategy to "
                      "'steps' or 'epoch', or choose another schedule.");
  if (args.warmup_ratio.value_or(0) > 0 && args.warmup_steps > 0 &&
      *args.warmup_ratio != args.warmup_steps) {
    throw ConfigError("warmup_ratio is " + shown(*args.warmup_ratio) + " and warmup_steps is " +
                      shown(args.warmup_steps) +
                      ", which are two names of one thing. Set warmup_steps alone; below 1 it is a "
                      "share of all steps.");
  }
}

void check_optim_args(const Args& args) {
  if (args.optim_args.empty()) return;
  for (const auto& part : split(args.optim_args, ',')) {
    const auto at = part.find('=');
    if (at != std::string::npos && at > 0 && at + 1 < part.size()) continue;
    throw ConfigError("optim_args is '" + args.optim_args + "', where '" + part +
                      "' is not a setting; allowed are settings with commas between them, such as "
                      "'momentum=0.9,nesterov=true'.");
  }
}

void check_words(const FsdpOption& option, const char* name) {
  std::string first;
  for (const auto& word : option.words()) {
    if (word == "true" || word == "offload" || word == "auto_wrap") continue;
    if (!first.empty())
      throw ConfigError(std::string(name) + " has '" + first + "' and '" + word +
                        "'; allowed is one way of sharding. Remove one of them.");
    first = word;
  }
}

void check_sharding(const Args& args) {
  check_words(args.fsdp, "fsdp");
  check_words(args.fsdp_strategy, "fsdp_strategy");
  if (!args.fsdp.empty() && !args.fsdp_strategy.empty() && args.fsdp != args.fsdp_strategy)
    throw ConfigError("fsdp is '" + join(args.fsdp.words(), " ") + "' and fsdp_strategy is '" +
                      join(args.fsdp_strategy.words(), " ") +
                      "', which are two names of one thing. Set one of them.");
  const bool asks_for_fsdp =
      !args.fsdp.empty() || !args.fsdp_strategy.empty() || !args.fsdp_config.empty();
  if (!args.deepspeed.empty() && asks_for_fsdp)
    throw ConfigError(
        "deepspeed is set, and fsdp or fsdp_config too; models are sharded by one of them. Leave "
        "one out.");
}

void check_data(const Args& args) {
  if (args.train_sampling_strategy == SamplingStrategy::batch_rebalance &&
      args.max_tokens_per_batch) {
    throw ConfigError("train_sampling_strategy is 'batch_rebalance' and max_tokens_per_batch is " +
                      std::to_string(*args.max_tokens_per_batch) +
                      ", which both decide how many samples a batch has. Set one of them.");
  }
  if (args.dataloader_num_workers > 0 || !args.dataloader_prefetch_factor) return;
  throw ConfigError("dataloader_prefetch_factor is " +
                    std::to_string(*args.dataloader_prefetch_factor) +
                    " and dataloader_num_workers is 0; without workers nothing is made ahead. Set "
                    "dataloader_num_workers, or leave dataloader_prefetch_factor out.");
}

void check_trackers(const Args& args) {
  for (const auto& name : args.report_to.texts()) {
    if (name == "all" || (name == "none" && args.report_to.texts().size() == 1)) continue;
    if (name == "none")
      throw ConfigError("report_to has 'none' beside '" + join(args.report_to.texts(), "', '") +
                        "'. Remove 'none', or leave it alone there.");
    try {
      (void)detail::tracker_class(name);
    } catch (const ConfigError&) {
      throw_with_context<ConfigError>("report_to has '" + name + "'; allowed are " +
                                      join(available_trackers(), ", ") + ", all and none");
    }
  }
}

std::string expand_home(const std::string& path) {
  const auto home = env("HOME");
  if (!home || (path != "~" && !path.starts_with("~/"))) return path;
  return *home + path.substr(1);
}

void settle_aliases(Args& args) {
  if (args.fsdp.empty()) args.fsdp = args.fsdp_strategy;
  args.fsdp_strategy = {};
  args.gradient_checkpointing = args.activation_checkpointing.value_or(args.gradient_checkpointing);
  args.activation_checkpointing = args.gradient_checkpointing;
  if (args.warmup_ratio.value_or(0) > 0) args.warmup_steps = *args.warmup_ratio;
  args.warmup_ratio = std::nullopt;
}

void settle_evaluation(Args& args) {
  const bool evaluates = args.eval_strategy != IntervalStrategy::no;
  args.do_eval |= evaluates;
  if (args.eval_strategy == IntervalStrategy::steps) args.eval_steps = effective_eval_steps(args);
  if ((args.load_best_model_at_end || watches_metric(args)) && args.metric_for_best_model.empty())
    args.metric_for_best_model = "loss";
  if (!args.greater_is_better && !args.metric_for_best_model.empty())
    args.greater_is_better = !args.metric_for_best_model.ends_with("loss");
}

}  // namespace

void validate(const TrainingArguments& args) {
  check_each(args);
  check_sharding(args);
  check_steps(args);
  check_best_model(args);
  check_precision(args);
  check_schedule(args);
  check_optim_args(args);
  check_data(args);
  check_trackers(args);
}

std::string ResolvedArguments::output_name() const {
  const auto folder = std::filesystem::absolute(output_dir).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

ResolvedArguments resolved(TrainingArguments args) {
  validate(args);
  settle_aliases(args);
  settle_evaluation(args);
  args.output_dir = expand_home(args.output_dir);
  if (args.run_name.empty()) args.run_name = args.output_dir;
  if (args.report_to == Words("none")) args.report_to = {};
  if (args.save_total_limit == 0) args.save_total_limit = std::nullopt;
  if (args.use_cpu) args.dataloader_pin_memory = false;
  return ResolvedArguments(std::move(args));
}

}  // namespace accelerate
