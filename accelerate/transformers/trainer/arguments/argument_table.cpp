#include "accelerate/transformers/trainer/arguments/argument_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
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

// Returns the sentence of an argument: its comment in training_arguments.h.
std::string doc_of(const std::string& name) {
  static const std::map<std::string, std::string> kDocs = {
#include "argument_docs.inc"
  };
  return kDocs.at(name);
}

template <typename T>
ArgumentKey plain(const std::string& name, T Args::* member, KeyRules rules = {}) {
  return key<Args>(name, member, doc_of(name), std::move(rules));
}

template <typename Number>
ArgumentKey number(const std::string& name, Number Args::* member, NumberRange range = {}) {
  ArgumentKey line = plain(name, member);
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
ArgumentKey or_absent(const std::string& name, T Args::* member, KeyRules rules = {}) {
  ArgumentKey line = plain(name, member, std::move(rules));
  line.write = [member](const Args& args) -> std::optional<Node> {
    const T& value = args.*member;
    return value.empty() ? std::nullopt : std::optional(KeyValue<T>::write(value));
  };
  return line;
}

// A program may register schedules after this table was made, so `read` asks for the names again.
ArgumentKey schedule(const std::string& name, std::string Args::* member) {
  ArgumentKey line = plain(name, member);
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

// The name of an argument, and its field.
#define ARG(name) #name, &Args::name
// clang-format off
ArgumentGroup core_group() {
  return {"The training", {
    plain(ARG(output_dir)), plain(ARG(per_device_train_batch_size), kFromOne),
    number(ARG(num_train_epochs), kPositive), plain(ARG(max_steps), {.min = -1}),
    number(ARG(learning_rate)), schedule(ARG(lr_scheduler_type)), plain(ARG(lr_scheduler_kwargs)),
    number(ARG(warmup_steps), kSteps), number(ARG(warmup_ratio), kShare),
    plain(ARG(gradient_accumulation_steps), kFromOne), plain(ARG(average_tokens_across_devices)),
    number(ARG(max_grad_norm)), number(ARG(label_smoothing_factor), {.most = 1}),
    plain(ARG(seed), kSeed), plain(ARG(data_seed), kSeed), plain(ARG(full_determinism)),
    plain(ARG(do_train)), plain(ARG(do_eval)), plain(ARG(do_predict)),
  }};
}

ArgumentGroup optimizer_group() {
  return {"The optimizer", {
    plain(ARG(optim), {.synonyms = {{"adamw", "adamw_torch"}, {"lion", "lion_32bit"}}}),
    or_absent(ARG(optim_args)), number(ARG(weight_decay)), number(ARG(adam_beta1), kShare),
    number(ARG(adam_beta2), kShare), number(ARG(adam_epsilon)),
  }};
}

ArgumentGroup precision_group() {
  return {"Precision and memory", {
    plain(ARG(bf16)), plain(ARG(fp16)), plain(ARG(bf16_full_eval)), plain(ARG(fp16_full_eval)),
    plain(ARG(tf32)), plain(ARG(gradient_checkpointing)), plain(ARG(activation_checkpointing)),
    plain(ARG(auto_find_batch_size)), plain(ARG(torch_empty_cache_steps), kFromOne),
    number(ARG(neftune_noise_alpha)), plain(ARG(use_cache)),
  }};
}

ArgumentGroup logging_group() {
  return {"Logging", {
    plain(ARG(logging_strategy), kNever), number(ARG(logging_steps), kSteps),
    plain(ARG(logging_first_step)), plain(ARG(log_on_each_node)),
    plain(ARG(logging_nan_inf_filter)), plain(ARG(report_to)), or_absent(ARG(run_name)),
    plain(ARG(project)), plain(ARG(disable_tqdm)), plain(ARG(log_level)),
    plain(ARG(log_level_replica)),
    plain(ARG(include_num_input_tokens_seen), {.synonyms = {{"true", "all"}, {"false", "no"}}}),
  }};
}

ArgumentGroup evaluation_group() {
  return {"Evaluation", {
    plain(ARG(eval_strategy), {.aliases = {"evaluation_strategy"}, .synonyms = {{"false", "no"}}}),
    number(ARG(eval_steps), kSteps), number(ARG(eval_delay)), plain(ARG(eval_on_start)),
    plain(ARG(per_device_eval_batch_size), kFromOne), plain(ARG(prediction_loss_only)),
    plain(ARG(eval_accumulation_steps), kFromOne), plain(ARG(eval_do_concat_batches)),
    plain(ARG(batch_eval_metrics)),
    plain(ARG(include_for_metrics), {.choices = {"inputs", "loss"}}), or_absent(ARG(label_names)),
  }};
}

ArgumentGroup saving_group() {
  return {"Saving", {
    plain(ARG(save_strategy), kNever), number(ARG(save_steps), kSteps),
    plain(ARG(save_total_limit), kAtLeastZero), plain(ARG(save_only_model)),
    plain(ARG(save_on_each_node)), plain(ARG(enable_jit_checkpoint)),
    plain(ARG(load_best_model_at_end)),
    or_absent(ARG(metric_for_best_model)), plain(ARG(greater_is_better)),
    plain(ARG(overwrite_output_dir)), or_absent(ARG(resume_from_checkpoint)),
    plain(ARG(ignore_data_skip)), plain(ARG(restore_callback_states_from_checkpoint)),
    plain(ARG(verify_resume)),
  }};
}

ArgumentGroup data_group() {
  return {"Data", {
    plain(ARG(dataloader_num_workers), kAtLeastZero), plain(ARG(dataloader_pin_memory)),
    plain(ARG(dataloader_drop_last)), plain(ARG(dataloader_prefetch_factor), kFromOne),
    plain(ARG(remove_unused_columns)), plain(ARG(train_sampling_strategy)),
    plain(ARG(length_column_name)), plain(ARG(max_tokens_per_batch), kFromOne),
  }};
}

ArgumentGroup process_group() {
  return {"Processes", {
    or_absent(ARG(fsdp)), or_absent(ARG(fsdp_strategy)), or_absent(ARG(fsdp_config)),
    or_absent(ARG(deepspeed)), plain(ARG(accelerator_config)),
    plain(ARG(ddp_find_unused_parameters)), number(ARG(ddp_bucket_cap_mb), kPositive),
    plain(ARG(ddp_broadcast_buffers)), plain(ARG(ddp_static_graph)),
    or_absent(ARG(ddp_backend), {.choices = {"gloo", "nccl"}}),
    plain(ARG(ddp_timeout), {.min = 1, .max = 1'000'000'000}),
    plain(ARG(use_cpu), {.aliases = {"no_cuda"}}),
  }};
}

ArgumentGroup hub_group() {
  return {"The hub", {
    plain(ARG(push_to_hub)), or_absent(ARG(hub_model_id)), plain(ARG(hub_strategy)),
    or_absent(ARG(hub_token)), plain(ARG(hub_private_repo)), plain(ARG(hub_always_push)),
    or_absent(ARG(hub_revision)),
  }};
}
// clang-format on
#undef ARG

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
    for (const auto& group : argument_groups())
      table.keys.insert(table.keys.end(), group.keys.begin(), group.keys.end());
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
