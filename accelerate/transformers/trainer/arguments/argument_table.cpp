#include "accelerate/transformers/trainer/arguments/argument_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "accelerate/formats/documents/json.h"
#include "accelerate/optim/get_scheduler.h"
#include "accelerate/transformers/trainer/arguments/argument_values.h"

namespace accelerate::detail {
namespace {

using Args = TrainingArguments;
using ArgumentKey = Key<Args>;

// The range of numbers that an argument allows.
struct NumberRange {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool above = false;  // `least` itself is refused.
  bool below = false;  // `most` itself is refused.
  bool steps = false;  // A count of steps; below 1: a share of all steps.

  [[nodiscard]] bool has(double value) const {
    if (!std::isfinite(value) || value < least || value > most) return false;
    if ((above && value == least) || (below && value == most)) return false;
    return !steps || value < 1 || value == std::trunc(value);
  }
  [[nodiscard]] std::string text() const {
    if (steps) return "a whole number of steps, or below 1 a share of all steps, 0 or more";
    const std::string low = one_line(Node::real(least));
    if (std::isinf(most))
      return std::string("a number ") + (above ? "above " : "of at least ") + low;
    return "a number from " + low + " to " + (below ? "below " : "") + one_line(Node::real(most));
  }
};

// Python keeps counts of steps as integers.
Node number_node(double value, const NumberRange& range) {
  const bool whole = range.steps && value == std::trunc(value) && std::fabs(value) < 1e15;
  return whole ? Node::integer(static_cast<std::int64_t>(value)) : Node::real(value);
}

template <typename Number>
ArgumentKey number(std::string name, Number Args::* member, std::string doc, NumberRange range) {
  ArgumentKey line = key<Args>(std::move(name), member, std::move(doc));
  line.allowed = range.text();
  line.read = [member, range](Args& args, const Node& node) {
    const auto value = node.is_scalar() ? parse_double(node.text) : std::nullopt;
    if (!value || !range.has(*value)) return false;
    args.*member = *value;
    return true;
  };
  line.write = [member, range](const Args& args) -> std::optional<Node> {
    const std::optional<double> value = args.*member;
    return value ? std::optional(number_node(*value, range)) : std::nullopt;
  };
  return line;
}

// Writes an empty text, list or choice as absent.
template <typename T>
ArgumentKey or_absent(std::string name, T Args::* member, std::string doc, KeyRules rules = {}) {
  ArgumentKey line = key<Args>(std::move(name), member, std::move(doc), std::move(rules));
  line.write = [member](const Args& args) -> std::optional<Node> {
    const T& value = args.*member;
    return value.empty() ? std::nullopt : std::optional(KeyValue<T>::write(value));
  };
  return line;
}

// A program may register schedules after this table was made, so `read` asks for the names again.
ArgumentKey schedule(std::string name, std::string Args::* member, std::string doc) {
  ArgumentKey line = key<Args>(std::move(name), member, std::move(doc));
  line.choices = scheduler_names();
  line.allowed = "one of " + join(line.choices, ", ") + ", or a registered one";
  line.read = [member](Args& args, const Node& node) {
    const auto names = scheduler_names();
    const bool known = node.is_scalar() && std::ranges::find(names, node.text) != names.end();
    if (known) args.*member = node.text;
    return known;
  };
  return line;
}

const KeyRules kAtLeastZero{.min = 0};
const KeyRules kFromOne{.min = 1};
const KeyRules kSeed{.min = 0, .max = std::numeric_limits<std::int64_t>::max()};
const KeyRules kNever{.synonyms = {{"false", "no"}}};  // YAML reads a plain no as false.
const NumberRange kPositive{.above = true};
const NumberRange kSteps{.steps = true};
const NumberRange kShare{.most = 1, .below = true};

// clang-format off
ArgumentGroup core_group() {
  return {"The training", {
    key("output_dir", &Args::output_dir, "Folder of checkpoints, results and the model."),
    key("per_device_train_batch_size", &Args::per_device_train_batch_size, "Samples a batch of each rank.", kFromOne),
    number("num_train_epochs", &Args::num_train_epochs, "Passes over the data; 1.5 is allowed.", kPositive),
    key("max_steps", &Args::max_steps, "Optimizer steps, instead of `num_train_epochs`; -1 or 0: by epochs.", {.min = -1}),
    number("learning_rate", &Args::learning_rate, "The greatest rate of the schedule.", {}),
    schedule("lr_scheduler_type", &Args::lr_scheduler_type, "Schedule of the learning rate: a name that `get_scheduler` takes."),
    key("lr_scheduler_kwargs", &Args::lr_scheduler_kwargs, "What only some schedules take, as a map."),
    number("warmup_steps", &Args::warmup_steps, "Steps in which the rate rises; below 1 a share of all steps.", kSteps),
    number("warmup_ratio", &Args::warmup_ratio, "Another name of a `warmup_steps` below 1.", kShare),
    key("gradient_accumulation_steps", &Args::gradient_accumulation_steps, "Batches a step. When absent the launcher's `ACCELERATE_GRADIENT_ACCUMULATION_STEPS` counts, else 1.", kFromOne),
    key("average_tokens_across_devices", &Args::average_tokens_across_devices, "Losses are means over the tokens of all ranks, not means of the ranks' means."),
    number("max_grad_norm", &Args::max_grad_norm, "Clips gradients so that their norm is at most this; 0 clips nothing.", {}),
    number("label_smoothing_factor", &Args::label_smoothing_factor, "Share of a label that is spread over all classes.", {.most = 1}),
    key("seed", &Args::seed, "Seed of new heads, dropout and orders.", kSeed),
    key("data_seed", &Args::data_seed, "Seed of orders alone; `seed` when absent.", kSeed),
    key("full_determinism", &Args::full_determinism, "Only kernels whose results repeat."),
    key("do_train", &Args::do_train, "For the program to read; the Trainer does not."),
    key("do_eval", &Args::do_eval, "For the program to read; true with an `eval_strategy` other than no."),
    key("do_predict", &Args::do_predict, "For the program to read; the Trainer does not."),
  }};
}

ArgumentGroup optimizer_group() {
  return {"The optimizer", {
    key("optim", &Args::optim, "The optimizer, where the program gives none.", {.synonyms = {{"adamw", "adamw_torch"}, {"lion", "lion_32bit"}}}),
    or_absent("optim_args", &Args::optim_args, "What only some optimizers take: `momentum=0.9,nesterov=true`."),
    number("weight_decay", &Args::weight_decay, "Decay of the weights. Biases and the parameters of norms do not decay.", {}),
    number("adam_beta1", &Args::adam_beta1, "Decay of AdamW's mean.", kShare),
    number("adam_beta2", &Args::adam_beta2, "Decay of AdamW's mean square.", kShare),
    number("adam_epsilon", &Args::adam_epsilon, "Small number that AdamW adds to its divisor, so that it never divides by 0.", {}),
  }};
}

ArgumentGroup precision_group() {
  return {"Precision and memory", {
    key("bf16", &Args::bf16, "Mixed precision in bfloat16. When absent the launcher decides, then the file of `fsdp_config`; false rules it out."),
    key("fp16", &Args::fp16, "Mixed precision in float16, as `bf16`."),
    key("bf16_full_eval", &Args::bf16_full_eval, "Evaluates with weights in bfloat16."),
    key("fp16_full_eval", &Args::fp16_full_eval, "Evaluates with weights in float16."),
    key("tf32", &Args::tf32, "Products of matrices in TF32, on GPUs that have it."),
    key("gradient_checkpointing", &Args::gradient_checkpointing, "Layers are computed again in backward: less memory, the same gradients."),
    key("activation_checkpointing", &Args::activation_checkpointing, "Another name of `gradient_checkpointing`."),
    key("auto_find_batch_size", &Args::auto_find_batch_size, "Begins again with a smaller batch when memory is short, from the weights as they are then unless there is a `model_init`."),
    key("torch_empty_cache_steps", &Args::torch_empty_cache_steps, "Gives cached GPU memory back every so many steps.", kFromOne),
    number("neftune_noise_alpha", &Args::neftune_noise_alpha, "Noise on embeddings while training.", {}),
    key("use_cache", &Args::use_cache, "Changes nothing, with a warning: models keep no keys and values while they train."),
  }};
}

ArgumentGroup logging_group() {
  return {"Logging", {
    key("logging_strategy", &Args::logging_strategy, "When it logs.", kNever),
    number("logging_steps", &Args::logging_steps, "Steps between logs; below 1 a share of all steps.", kSteps),
    key("logging_first_step", &Args::logging_first_step, "Logs the first step too."),
    key("log_on_each_node", &Args::log_on_each_node, "The first rank of each machine logs, not rank 0 alone."),
    key("logging_nan_inf_filter", &Args::logging_nan_inf_filter, "Logged losses leave out NaN and infinity."),
    key("report_to", &Args::report_to, "Trackers by name, `all` or `none`."),
    or_absent("run_name", &Args::run_name, "Name of the run in trackers; `output_dir` when absent."),
    key("project", &Args::project, "Name of the project, for trackers that group runs."),
    key("disable_tqdm", &Args::disable_tqdm, "Lines instead of progress bars."),
    key("log_level", &Args::log_level, "Least severe message that the first rank of a machine prints."),
    key("log_level_replica", &Args::log_level_replica, "Least severe message that the other ranks print."),
    key("include_num_input_tokens_seen", &Args::include_num_input_tokens_seen, "Counts the tokens that were trained on.", {.synonyms = {{"true", "all"}, {"false", "no"}}}),
  }};
}

ArgumentGroup evaluation_group() {
  return {"Evaluation", {
    key("eval_strategy", &Args::eval_strategy, "When `train()` evaluates.", {.aliases = {"evaluation_strategy"}, .synonyms = {{"false", "no"}}}),
    number("eval_steps", &Args::eval_steps, "Steps between evaluations; `logging_steps` when absent.", kSteps),
    number("eval_delay", &Args::eval_delay, "Steps, or epochs, before the first evaluation.", {}),
    key("eval_on_start", &Args::eval_on_start, "Evaluates before the first step."),
    key("per_device_eval_batch_size", &Args::per_device_eval_batch_size, "Samples a batch of each rank, in evaluation and prediction.", kFromOne),
    key("prediction_loss_only", &Args::prediction_loss_only, "Evaluation gives losses alone."),
    key("eval_accumulation_steps", &Args::eval_accumulation_steps, "Batches before predictions move to host memory; all when absent.", kFromOne),
    key("eval_do_concat_batches", &Args::eval_do_concat_batches, "Predictions are one tensor, not one a batch."),
    key("batch_eval_metrics", &Args::batch_eval_metrics, "`compute_metrics` is called for each batch."),
    key("include_for_metrics", &Args::include_for_metrics, "What `compute_metrics` gets besides.", {.choices = {"inputs", "loss"}}),
    or_absent("label_names", &Args::label_names, "Columns that hold labels; the model's when absent."),
  }};
}

ArgumentGroup saving_group() {
  return {"Saving", {
    key("save_strategy", &Args::save_strategy, "When `train()` saves; `best` after each evaluation that is better than all before.", kNever),
    number("save_steps", &Args::save_steps, "Steps between checkpoints; below 1 a share of all steps.", kSteps),
    key("save_total_limit", &Args::save_total_limit, "Checkpoints that are kept, the best one besides; all when absent or 0.", kAtLeastZero),
    key("save_only_model", &Args::save_only_model, "Checkpoints are without what a training needs to go on."),
    key("save_on_each_node", &Args::save_on_each_node, "Each machine saves on its own disk."),
    key("load_best_model_at_end", &Args::load_best_model_at_end, "`train()` ends with the weights of the best checkpoint."),
    or_absent("metric_for_best_model", &Args::metric_for_best_model, "The metric that says which is the best, with or without `eval_`; `loss` with `load_best_model_at_end` and with schedules that watch a metric."),
    key("greater_is_better", &Args::greater_is_better, "Whether a great metric is good; unless its name ends in `loss`, when absent."),
    key("overwrite_output_dir", &Args::overwrite_output_dir, "The checkpoints of an older run in `output_dir` go when the first one of this run is complete."),
    or_absent("resume_from_checkpoint", &Args::resume_from_checkpoint, "Where `train()` goes on: true for the newest checkpoint, or a folder."),
    key("ignore_data_skip", &Args::ignore_data_skip, "A resumed epoch begins anew instead of where it was left."),
    key("restore_callback_states_from_checkpoint", &Args::restore_callback_states_from_checkpoint, "Callbacks get the arguments that they had saved too, not their state alone."),
    key("verify_resume", &Args::verify_resume, "Trains the second half of a short run twice, once resumed, and compares."),
  }};
}

ArgumentGroup data_group() {
  return {"Data", {
    key("dataloader_num_workers", &Args::dataloader_num_workers, "Threads that make batches ahead.", kAtLeastZero),
    key("dataloader_pin_memory", &Args::dataloader_pin_memory, "Batches for GPUs in page-locked memory."),
    key("dataloader_drop_last", &Args::dataloader_drop_last, "Leaves out an incomplete last batch."),
    key("dataloader_prefetch_factor", &Args::dataloader_prefetch_factor, "Batches that each worker is ahead; 2 when absent.", kFromOne),
    key("remove_unused_columns", &Args::remove_unused_columns, "Drops columns that the model does not take."),
    key("train_sampling_strategy", &Args::train_sampling_strategy, "The order of training samples."),
    key("length_column_name", &Args::length_column_name, "The column of lengths, for `group_by_length` and `batch_rebalance`."),
    key("max_tokens_per_batch", &Args::max_tokens_per_batch, "Batches of as many samples as have so many tokens together, padding counted.", kFromOne),
  }};
}

ArgumentGroup process_group() {
  return {"Processes", {
    or_absent("fsdp", &Args::fsdp, "Whether models are sharded, and how."),
    or_absent("fsdp_strategy", &Args::fsdp_strategy, "Another name of `fsdp`."),
    or_absent("fsdp_config", &Args::fsdp_config, "How models are sharded: a file of `accelerate config`, a file of the keys of its section, or those keys."),
    or_absent("deepspeed", &Args::deepspeed, "Refused: ZeRO comes from a configuration file or from `accelerate launch --use_deepspeed`."),
    key("accelerator_config", &Args::accelerator_config, "Settings of loaders: `split_batches`, `dispatch_batches`, `even_batches`, `use_seedable_sampler`, `non_blocking`."),
    key("ddp_find_unused_parameters", &Args::ddp_find_unused_parameters, "Allows parameters that a loss does not use; unless `gradient_checkpointing`, when absent."),
    number("ddp_bucket_cap_mb", &Args::ddp_bucket_cap_mb, "Size of a gradient bucket in MiB; 25 when absent.", kPositive),
    key("ddp_broadcast_buffers", &Args::ddp_broadcast_buffers, "After each step every rank has rank 0's buffers; true when absent."),
    key("ddp_static_graph", &Args::ddp_static_graph, "Every step is like the first; false when absent."),
    or_absent("ddp_backend", &Args::ddp_backend, "What carries tensors: nccl on GPUs and gloo on the CPU when absent.", {.choices = {"gloo", "nccl"}}),
    key("ddp_timeout", &Args::ddp_timeout, "Seconds before a collective gives up.", {.min = 1, .max = 1'000'000'000}),
    key("use_cpu", &Args::use_cpu, "The CPU even where there is a GPU.", {.aliases = {"no_cuda"}}),
  }};
}

ArgumentGroup hub_group() {
  return {"The hub", {
    key("push_to_hub", &Args::push_to_hub, "Pushes the model; see `hub_strategy`."),
    or_absent("hub_model_id", &Args::hub_model_id, "`me/name`; the name of `output_dir` at the token's account when absent."),
    key("hub_strategy", &Args::hub_strategy, "What is pushed, and when."),
    or_absent("hub_token", &Args::hub_token, "The token; the one of `accelerate hub login` when absent."),
    key("hub_private_repo", &Args::hub_private_repo, "Whether a repository that is made is private."),
    key("hub_always_push", &Args::hub_always_push, "Pushes also while an earlier push is under way."),
    or_absent("hub_revision", &Args::hub_revision, "The branch; `main` when absent."),
  }};
}
// clang-format on

}  // namespace

const std::vector<ArgumentGroup>& argument_groups() {
  static const std::vector<ArgumentGroup> kGroups = {
      core_group(),   optimizer_group(), precision_group(), logging_group(), evaluation_group(),
      saving_group(), data_group(),      process_group(),   hub_group()};
  return kGroups;
}

const KeyTable<TrainingArguments>& argument_table() {
  static const KeyTable<Args> kTable = [] {
    KeyTable<Args> table;
    for (const auto& group : argument_groups()) {
      table.keys.insert(table.keys.end(), group.keys.begin(), group.keys.end());
    }
    return table;
  }();
  return kTable;
}

bool is_of_this_library(const std::string& name) {
  static const std::vector<std::string> kOurs = {"fsdp_strategy", "warmup_ratio",
                                                 "max_tokens_per_batch", "verify_resume",
                                                 "overwrite_output_dir"};
  return std::ranges::find(kOurs, name) != kOurs.end();
}

std::string one_line(const Node& node) {
  std::string text = write_json(node);
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) {
    const auto end = std::min(text.find_first_not_of(" \n", at), text.size());
    const bool blank = end < text.size() && at > 0 && text[at - 1] == ',';
    text.replace(at, end - at, blank ? " " : "");
  }
  return text;
}

std::string default_text(const Key<TrainingArguments>& key) {
  static const TrainingArguments kDefaults;
  const auto value = key.write(kDefaults);
  return value && !value->is_null() ? one_line(*value) : "absent";
}

}  // namespace accelerate::detail
