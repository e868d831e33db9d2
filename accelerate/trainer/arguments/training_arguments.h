// What a training is told, with the names, meanings and defaults of Transformers'
// TrainingArguments. From code:
//
//   TrainingArguments args{.output_dir = "your-model",
//                          .learning_rate = 2e-5,
//                          .num_train_epochs = 2,
//                          .eval_strategy = "epoch"};
//
// from the command line and from files: accelerate/trainer/arguments/parse_args.h.
// docs/training_arguments.md has a row for each argument.
//
// What code sets comes before the launcher's environment, and that before a file that
// `fsdp_config` names. Fields that the environment can decide are therefore std::optional.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/config/cluster_config.h"
#include "accelerate/config/fsdp_plugin.h"
#include "accelerate/optim/get_scheduler.h"
#include "accelerate/trainer/arguments/words.h"

namespace accelerate {

/// Words, one of which may stand for a list of one: `.report_to = "tensorboard"`.
class Words : public std::vector<std::string> {
 public:
  using vector::vector;
  // NOLINTBEGIN(google-explicit-constructor): `.report_to = "tensorboard"` is the point.
  Words(const char* text) : vector{std::string(text)} {}
  Words(std::string text) : vector{std::move(text)} {}
  Words(std::vector<std::string> texts) : vector(std::move(texts)) {}
  // NOLINTEND(google-explicit-constructor)
};

/// Whether and how models are sharded: true, or "full_shard", "shard_grad_op", "hybrid_shard",
/// "hybrid_shard_zero2", "no_shard", with "offload" and "auto_wrap" beside one of them, as one text
/// ("full_shard auto_wrap") or as a list. False or empty: as the launcher says. With true alone
/// `fsdp_config` or the launcher says how. Words are kept in lower case.
class FsdpOption {
 public:
  FsdpOption() = default;
  // NOLINTBEGIN(google-explicit-constructor): `.fsdp = "full_shard"` is the point.
  FsdpOption(bool on) : FsdpOption(std::string(on ? "true" : "")) {}
  FsdpOption(const char* words) : FsdpOption(std::string(words)) {}
  FsdpOption(const std::string& words);
  FsdpOption(const std::vector<std::string>& words);
  FsdpOption(std::initializer_list<std::string> words)
      : FsdpOption(std::vector<std::string>(words)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  [[nodiscard]] bool has(const std::string& word) const;
  [[nodiscard]] bool empty() const { return words_.empty(); }
  bool operator==(const FsdpOption&) const = default;

 private:
  std::vector<std::string> words_;
};

/// How models are sharded: the path of a file of `accelerate config`, or of a JSON or YAML file
/// with the keys of its section fsdp_config; those keys in code; or a plugin.
class FsdpConfigOption {
 public:
  FsdpConfigOption() = default;
  // NOLINTBEGIN(google-explicit-constructor): `.fsdp_config = "fsdp.yaml"` is the point.
  FsdpConfigOption(const char* path) : value_(std::filesystem::path(path)) {}
  FsdpConfigOption(const std::string& path) : value_(std::filesystem::path(path)) {}
  FsdpConfigOption(std::filesystem::path path) : value_(std::move(path)) {}
  FsdpConfigOption(FsdpConfig config) : value_(std::move(config)) {}
  FsdpConfigOption(FullyShardedDataParallelPlugin plugin) : value_(std::move(plugin)) {}
  // NOLINTEND(google-explicit-constructor)

  using Value = std::variant<std::monostate, std::filesystem::path, FsdpConfig,
                             FullyShardedDataParallelPlugin>;
  [[nodiscard]] const Value& value() const { return value_; }
  [[nodiscard]] bool empty() const { return std::holds_alternative<std::monostate>(value_); }

 private:
  Value value_;
};

/// The Accelerator's settings of loaders.
struct AcceleratorConfig {
  bool split_batches = false;                 ///< A batch is of all ranks together, not of each.
  std::optional<bool> dispatch_batches = {};  ///< Rank 0 reads for all; default: iterable data.
  bool even_batches = true;          ///< Repeats first samples so that ranks get equally many.
  bool use_seedable_sampler = true;  ///< The order of an epoch is a function of seed and epoch.
  bool non_blocking = false;         ///< Moves batches to the device without waiting.
};

/// Where a training goes on: nowhere, "true" or true for the newest checkpoint of output_dir, or a
/// folder.
class ResumeOption {
 public:
  ResumeOption() = default;
  // NOLINTBEGIN(google-explicit-constructor): `train({.resume_from_checkpoint = true})`.
  ResumeOption(bool newest) : newest_(newest) {}
  ResumeOption(const char* folder) : ResumeOption(std::filesystem::path(folder)) {}
  ResumeOption(const std::string& folder) : ResumeOption(std::filesystem::path(folder)) {}
  ResumeOption(std::filesystem::path folder);
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool newest() const { return newest_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] bool empty() const { return !newest_ && folder_.empty(); }

 private:
  bool newest_ = false;
  std::filesystem::path folder_;
};

struct TrainingArguments {
  // The founding example's, in its order.
  std::string output_dir = "trainer_output";     ///< Folder of checkpoints, results and the model.
  double learning_rate = 5e-5;                   ///< Greatest rate of the schedule.
  std::int64_t per_device_train_batch_size = 8;  ///< Samples a batch of each rank.
  std::int64_t per_device_eval_batch_size = 8;   ///< The same for evaluation and prediction.
  double num_train_epochs = 3.0;                 ///< Passes over the data; 1.5 is allowed.
  FsdpConfigOption fsdp_config = {};             ///< How models are sharded.
  FsdpOption fsdp = {};                          ///< Whether models are sharded.
  FsdpOption fsdp_strategy = {};                 ///< Another name of `fsdp`.
  double weight_decay = 0.0;                     ///< Of all parameters but biases and norms.
  Word<IntervalStrategy> eval_strategy = IntervalStrategy::no;  ///< When train() evaluates.
  Word<SaveStrategy> save_strategy = SaveStrategy::steps;       ///< When train() saves.
  bool load_best_model_at_end = false;  ///< train() ends with the best checkpoint's weights.
  bool push_to_hub = false;             ///< Pushes the model; see hub_strategy.

  // Training.
  std::int64_t max_steps = -1;  ///< Optimizer steps, instead of num_train_epochs; -1: by epochs.
  std::optional<std::int64_t> gradient_accumulation_steps = {};  ///< Batches a step; 1.
  bool average_tokens_across_devices = true;  ///< Losses are means over the tokens of all ranks.
  double max_grad_norm = 1.0;                 ///< Gradients are clipped to it; 0: not.
  std::string lr_scheduler_type = "linear";   ///< A name that get_scheduler() knows.
  SchedulerKwargs lr_scheduler_kwargs = {};   ///< What only some schedules take.
  double warmup_steps = 0;  ///< Steps in which the rate rises; below 1 a share of all steps.
  std::optional<double> warmup_ratio = {};      ///< Another name of a warmup_steps below 1.
  std::uint64_t seed = 42;                      ///< Of heads made anew, dropout and orders.
  std::optional<std::uint64_t> data_seed = {};  ///< Of orders alone; `seed`.
  bool full_determinism = false;                ///< Only kernels whose results repeat.
  bool do_train = false, do_eval = false, do_predict = false;  ///< For the program to read.

  // Optimizer.
  Word<OptimizerName> optim = OptimizerName::adamw_torch_fused;
  std::string optim_args = {};  ///< What only some optimizers take: "momentum=0.9,nesterov=true".
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double label_smoothing_factor = 0.0;  ///< Share of a label that is spread over all classes.

  // Precision and memory.
  std::optional<bool> bf16 = {};        ///< Mixed precision in bfloat16; as the launcher says.
  std::optional<bool> fp16 = {};        ///< Mixed precision in float16; as the launcher says.
  bool bf16_full_eval = false;          ///< Evaluates with weights in bfloat16.
  bool fp16_full_eval = false;          ///< Evaluates with weights in float16.
  std::optional<bool> tf32 = {};        ///< TF32 products on GPUs that have them.
  bool gradient_checkpointing = false;  ///< Layers are computed again in backward: less memory.
  std::optional<bool> activation_checkpointing = {};  ///< Another name of gradient_checkpointing.
  bool auto_find_batch_size = false;  ///< Begins again with a smaller batch when memory is short.
  std::optional<std::int64_t> torch_empty_cache_steps = {};  ///< Frees cached memory that often.
  std::optional<double> neftune_noise_alpha = {};  ///< Noise on embeddings while training.
  bool use_cache = false;  ///< Changes nothing: models keep no keys while they train.

  // Logging.
  Word<IntervalStrategy> logging_strategy = IntervalStrategy::steps;
  double logging_steps = 500;       ///< Steps between logs; below 1 a share of all steps.
  bool logging_first_step = false;  ///< Logs the first step too.
  bool log_on_each_node = true;     ///< Whether the first rank of each machine logs, or one rank.
  bool logging_nan_inf_filter = true;  ///< Logged losses leave out NaN and infinity.
  Words report_to = {};       ///< Trackers: "tensorboard", "jsonl", …, "all"; "none" or empty.
  std::string run_name = {};  ///< Of trackers; output_dir.
  std::string project = "huggingface";                     ///< Of trackers that group runs.
  std::optional<bool> disable_tqdm = {};                   ///< Lines instead of progress bars.
  Word<Verbosity> log_level = Verbosity::passive;          ///< Of the first rank.
  Word<Verbosity> log_level_replica = Verbosity::warning;  ///< Of other ranks.
  Word<CountedTokens> include_num_input_tokens_seen = CountedTokens::no;

  // Evaluation.
  std::optional<double> eval_steps = {};  ///< Steps between evaluations; logging_steps.
  double eval_delay = 0;                  ///< Steps, or epochs, before the first evaluation.
  bool eval_on_start = false;             ///< Evaluates before the first step.
  bool prediction_loss_only = false;      ///< Evaluation gives losses alone.
  std::optional<std::int64_t> eval_accumulation_steps = {};  ///< Batches before predictions move to
                                                             ///< host memory; all.
  bool eval_do_concat_batches = true;  ///< Predictions are one tensor, not one a batch.
  bool batch_eval_metrics = false;     ///< compute_metrics is called for each batch.
  Words include_for_metrics = {};      ///< "inputs", "loss": what compute_metrics gets besides.
  Words label_names = {};              ///< Columns that hold labels; the model's.

  // Saving.
  double save_steps = 500;  ///< Steps between checkpoints; below 1 a share of all steps.
  std::optional<std::int64_t> save_total_limit = {};  ///< Checkpoints that are kept.
  bool save_only_model = false;                       ///< Without what a training needs to go on.
  bool save_on_each_node = false;                     ///< Each machine saves on its own disk.
  std::string metric_for_best_model = {};             ///< "loss" with load_best_model_at_end.
  std::optional<bool> greater_is_better = {};         ///< Unless its name ends in "loss".
  ResumeOption resume_from_checkpoint = {};           ///< Where train() goes on.
  bool ignore_data_skip = false;  ///< A resumed epoch begins anew instead of where it was left.
  bool restore_callback_states_from_checkpoint = false;  ///< Callbacks get what they saved.

  // Data.
  int dataloader_num_workers = 0;                      ///< Threads that make batches ahead.
  bool dataloader_pin_memory = true;                   ///< Page-locked batches for GPUs.
  bool dataloader_drop_last = false;                   ///< Leaves out an incomplete last batch.
  std::optional<int> dataloader_prefetch_factor = {};  ///< Batches each worker is ahead; 2.
  bool remove_unused_columns = true;  ///< Drops columns that the model does not take.
  Word<SamplingStrategy> train_sampling_strategy = SamplingStrategy::random;
  std::string length_column_name = "length";  ///< Of lengths, for orders that look at them.
  /// Batches of as many samples as have so many tokens together, padding counted.
  std::optional<std::int64_t> max_tokens_per_batch = {};

  // Processes.
  std::optional<bool> ddp_find_unused_parameters = {};
  std::optional<double> ddp_bucket_cap_mb = {};
  std::optional<bool> ddp_broadcast_buffers = {};
  std::optional<bool> ddp_static_graph = {};
  std::string ddp_backend = {};     ///< "gloo" or "nccl".
  std::int64_t ddp_timeout = 1800;  ///< Seconds before a collective gives up.
  std::string deepspeed = {};       ///< Refused: DeepSpeed's own files are not read.
  AcceleratorConfig accelerator_config = {};
  bool use_cpu = false;  ///< The CPU even where there is a GPU.

  // The hub.
  std::string hub_model_id = {};  ///< "me/name"; the name of output_dir at the token's account.
  Word<HubStrategy> hub_strategy = HubStrategy::every_save;
  std::string hub_token = {};                 ///< Else the one of `accelerate hub login`.
  std::optional<bool> hub_private_repo = {};  ///< Of a repository that is made.
  bool hub_always_push = false;               ///< Pushes also while an earlier push is under way.
  std::string hub_revision = {};              ///< The branch; "main".

  // Of this library alone.
  bool verify_resume = false;  ///< Proves first that a resumed run is the uncut one, bit for bit.
};

/// Throws ConfigError for values that are out of range or contradict one another, with what was
/// found, what is allowed and the cure. Local. A file that `fsdp_config` names is not opened.
void validate(const TrainingArguments& args);

/// `args` with everything decided that one argument decides for another: aliases (`fsdp_strategy`,
/// `activation_checkpointing`, `warmup_ratio`), `eval_steps`, `do_eval`, `metric_for_best_model`,
/// `greater_is_better`, `run_name`, `report_to` ("none" is an empty list; "all" stays for the
/// trackers to say), `save_total_limit` (0 is absent), `dataloader_pin_memory` (false with
/// `use_cpu`), and "~" in `output_dir`. A second call changes nothing. Throws ConfigError as
/// validate() does. Source: `TrainingArguments.__post_init__` of Transformers 5.23.
[[nodiscard]] TrainingArguments resolved(TrainingArguments args);

}  // namespace accelerate
