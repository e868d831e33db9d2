#include "accelerate/transformers/trainer/arguments/deepspeed_arguments.h"

#include <algorithm>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/document.h"
#include "accelerate/launch/config/contradictions.h"
#include "accelerate/launch/config/deepspeed.h"
#include "accelerate/launch/config/resolved_deepspeed.h"

namespace accelerate::detail {
namespace {

std::string shown(const std::vector<double>& values) {
  std::vector<std::string> words;
  for (const double value : values) words.push_back(Node::real(value).text);
  return "[" + join(words, ", ") + "]";
}

// Holds values of a file against arguments.
class Match {
 public:
  explicit Match(const DeepSpeedFile& file) : file_(file) {}

  void number(const std::string& path, double argument, const std::string& name) {
    const auto value = file_.number(path);
    if (value && *value != argument)
      differ(path, Node::real(*value).text, name, Node::real(argument).text);
  }
  void whole(const std::string& path, std::int64_t argument, const std::string& name) {
    const auto value = file_.integer(path);
    if (value && *value != argument)
      differ(path, std::to_string(*value), name, std::to_string(argument));
  }
  void numbers(const std::string& path, const std::vector<double>& argument,
               const std::string& name) {
    const auto value = file_.numbers(path);
    if (!value.empty() && value != argument) differ(path, shown(value), name, shown(argument));
  }
  void flag(const std::string& path, std::optional<bool> argument, const std::string& name) {
    const auto value = file_.boolean(path);
    if (value && argument && *value != *argument)
      differ(path, *value ? "true" : "false", name, *argument ? "true" : "false");
  }

  void raise() const { found_.raise(); }

 private:
  void differ(const std::string& path, const std::string& value, const std::string& name,
              const std::string& argument) {
    found_.add(path + " is " + value + " (" + file_.place_of(path) + "), and " + name + " is " +
               argument);
  }

  const DeepSpeedFile& file_;
  Contradictions found_;
};

void match_batches(Match& match, const DeepSpeedFile& file, const TrainingArguments& args,
                   int ranks) {
  if (args.gradient_accumulation_steps)
    match.whole("gradient_accumulation_steps", *args.gradient_accumulation_steps,
                "gradient_accumulation_steps of the arguments");
  if (args.auto_find_batch_size) return;
  match.whole("train_micro_batch_size_per_gpu", args.per_device_train_batch_size,
              "per_device_train_batch_size");
  const std::int64_t steps = args.gradient_accumulation_steps.value_or(
      file.integer("gradient_accumulation_steps").value_or(1));
  match.whole("train_batch_size", ranks * args.per_device_train_batch_size * steps,
              "ranks × per_device_train_batch_size × gradient_accumulation_steps");
}

}  // namespace

std::optional<DeepSpeedFile> deepspeed_file_of(const TrainingArguments& args) {
  if (args.deepspeed.empty())
    return use_deepspeed() ? accelerate::deepspeed_file_of(DeepSpeedPlugin{}) : std::nullopt;
  return accelerate::deepspeed_file_of(DeepSpeedPlugin{.hf_ds_config = args.deepspeed});
}

void require_match(const DeepSpeedFile& file, const TrainingArguments& args, int ranks) {
  Match match(file);
  match_batches(match, file, args, ranks);
  if (args.max_grad_norm != TrainingArguments{}.max_grad_norm)
    match.number("gradient_clipping", args.max_grad_norm, "max_grad_norm");
  match.number("optimizer.params.lr", args.learning_rate, "learning_rate");
  match.numbers("optimizer.params.betas", {args.adam_beta1, args.adam_beta2},
                "[adam_beta1, adam_beta2]");
  match.number("optimizer.params.eps", args.adam_epsilon, "adam_epsilon");
  match.number("optimizer.params.weight_decay", args.weight_decay, "weight_decay");
  match.number("scheduler.params.warmup_max_lr", args.learning_rate, "learning_rate");
  match.flag("fp16.enabled", args.fp16, "fp16");
  match.flag("bf16.enabled", args.bf16, "bf16");
  match.raise();
}

void require_match_of_steps(const DeepSpeedFile& file, std::int64_t max_steps,
                            std::int64_t warmup_steps) {
  Match match(file);
  match.whole("scheduler.params.total_num_steps", max_steps, "the number of steps");
  match.whole("scheduler.params.warmup_num_steps", std::max<std::int64_t>(1, warmup_steps),
              "the number of warm-up steps, at least 1,");
  match.raise();
}

}  // namespace accelerate::detail
