// The arguments of a training, with the names, meanings and defaults of Transformers'
// TrainingArguments. In code:
//
//   TrainingArguments args{.output_dir = "your-model",
//                          .learning_rate = 2e-5,
//                          .num_train_epochs = 2,
//                          .eval_strategy = "epoch"};
//
// On the command line and in files: accelerate/transformers/trainer/arguments/parse_args.h.
// docs/training_arguments.md has a row for each argument.
//
// A value set in code wins over the launcher's environment, and the environment wins over a file
// that `fsdp_config` names. Fields that the environment can decide are therefore std::optional.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "accelerate/optim/get_scheduler.h"
#include "accelerate/transformers/trainer/arguments/argument_types.h"

namespace accelerate {

// Each field has one comment, from which --help and docs/training_arguments.md are made.
struct TrainingArguments {
  // First the fields of the example in docs/trainer.md: designated initializers need this order.
  std::string output_dir = "trainer_output";     ///< Folder of checkpoints, results and the model.
  double learning_rate = 5e-5;                   ///< Greatest rate of the schedule.
  std::int64_t per_device_train_batch_size = 8;  ///< Samples in a batch of each rank.
  /// Samples in a batch of each rank, in evaluation and prediction.
  std::int64_t per_device_eval_batch_size = 8;
  double num_train_epochs = 3.0;  ///< Passes over the data; 1.5 is allowed.
  /// How models are sharded: a file of `accelerate config`, a file of the keys of its section, or
  /// those keys.
  FsdpConfigOption fsdp_config = {};
  FsdpOption fsdp = {};           ///< Whether models are sharded, and how.
  FsdpOption fsdp_strategy = {};  ///< Another name of `fsdp`.
  double weight_decay = 0.0;      ///< Decays all parameters but biases and those of norms.
  Word<IntervalStrategy> eval_strategy = IntervalStrategy::no;  ///< When `train()` evaluates.
  /// When `train()` saves; `best`: after each evaluation that is better than all before.
  Word<SaveStrategy> save_strategy = SaveStrategy::steps;
  /// `train()` ends with the weights of the best checkpoint.
  bool load_best_model_at_end = false;
  bool push_to_hub = false;  ///< Pushes the model; see `hub_strategy`.

  // Training.
  /// Optimizer steps, instead of `num_train_epochs`; -1 or 0: by epochs.
  std::int64_t max_steps = -1;
  /// Batches in a step. When absent the launcher's `ACCELERATE_GRADIENT_ACCUMULATION_STEPS` counts,
  /// else 1.
  std::optional<std::int64_t> gradient_accumulation_steps = {};
  /// Losses are means over the tokens of all ranks, not means of the ranks' means.
  bool average_tokens_across_devices = true;
  double max_grad_norm = 1.0;  ///< Clips gradients so that their norm is at most this; 0: never.
  /// Schedule of the learning rate: a name that `get_scheduler` takes.
  std::string lr_scheduler_type = "linear";
  SchedulerSpecificOptions lr_scheduler_kwargs = {};  ///< What only some schedules take, as a map.
  double warmup_steps = 0;  ///< Steps in which the rate rises; below 1: a share of all steps.
  std::optional<double> warmup_ratio = {};      ///< Another name of a `warmup_steps` below 1.
  std::uint64_t seed = 42;                      ///< Seed of new heads, dropout and orders.
  std::optional<std::uint64_t> data_seed = {};  ///< Seed of orders alone; `seed` when absent.
  bool full_determinism = false;                ///< Uses only kernels whose results repeat.
  bool do_train = false;                        ///< For the program to read; the Trainer does not.
  /// For the program to read; true with an `eval_strategy` other than no.
  bool do_eval = false;
  bool do_predict = false;  ///< For the program to read; the Trainer does not.

  // Optimizer.
  /// The optimizer, where the program gives none.
  Word<OptimizerName> optim = OptimizerName::adamw_torch_fused;
  std::string optim_args = {};  ///< What only some optimizers take: `momentum=0.9,nesterov=true`.
  double adam_beta1 = 0.9;      ///< Decay of AdamW's mean.
  double adam_beta2 = 0.999;    ///< Decay of AdamW's mean square.
  /// Small number that AdamW adds to its divisor, so that it never divides by 0.
  double adam_epsilon = 1e-8;
  double label_smoothing_factor = 0.0;  ///< Share of a label that is spread over all classes.

  // Precision and memory.
  /// Mixed precision in bfloat16. When absent the launcher decides, then the file of `fsdp_config`;
  /// false rules it out.
  std::optional<bool> bf16 = {};
  std::optional<bool> fp16 = {};  ///< Mixed precision in float16, as `bf16`.
  bool bf16_full_eval = false;    ///< Evaluates with weights in bfloat16.
  bool fp16_full_eval = false;    ///< Evaluates with weights in float16.
  std::optional<bool> tf32 = {};  ///< Multiplies matrices in TF32, on GPUs that have it.
  /// Recomputes layers in backward: less memory, the same gradients.
  bool gradient_checkpointing = false;
  std::optional<bool> activation_checkpointing = {};  ///< Another name of `gradient_checkpointing`.
  /// Begins again with a smaller batch when memory runs out, from the weights as they are then
  /// unless there is a `model_init`.
  bool auto_find_batch_size = false;
  std::optional<std::int64_t> torch_empty_cache_steps = {};  ///< Frees cached memory every N steps.
  std::optional<double> neftune_noise_alpha = {};  ///< Noise on embeddings during training.
  /// Changes nothing, with a warning: models keep no keys and values while they train.
  bool use_cache = false;

  // Logging.
  Word<IntervalStrategy> logging_strategy = IntervalStrategy::steps;  ///< When it logs.
  double logging_steps = 500;       ///< Steps between logs; below 1: a share of all steps.
  bool logging_first_step = false;  ///< Logs the first step too.
  bool log_on_each_node = true;  ///< Logs on the first rank of each machine, not on rank 0 alone.
  bool logging_nan_inf_filter = true;   ///< Logged losses leave out NaN and infinity.
  Words report_to = {};                 ///< Trackers by name, `all` or `none`.
  std::string run_name = {};            ///< Name of the run in trackers; `output_dir` when absent.
  std::string project = "huggingface";  ///< Name of the project, for trackers that group runs.
  std::optional<bool> disable_tqdm = {};  ///< Lines instead of progress bars.
  /// Least severe message that the first rank of a machine prints.
  Word<Verbosity> log_level = Verbosity::passive;
  /// Least severe message that the other ranks print.
  Word<Verbosity> log_level_replica = Verbosity::warning;
  /// Counts the tokens that were trained on.
  Word<CountedTokens> include_num_input_tokens_seen = CountedTokens::no;

  // Evaluation.
  /// Steps between evaluations; `logging_steps` when absent.
  std::optional<double> eval_steps = {};
  double eval_delay = 0;              ///< Steps, or epochs, before the first evaluation.
  bool eval_on_start = false;         ///< Evaluates before the first step.
  bool prediction_loss_only = false;  ///< Evaluation computes only the loss.
  /// Batches between moves of predictions to host memory; all when absent.
  std::optional<std::int64_t> eval_accumulation_steps = {};
  bool eval_do_concat_batches = true;  ///< Predictions are one tensor, not one for each batch.
  bool batch_eval_metrics = false;     ///< `compute_metrics` is called for each batch.
  Words include_for_metrics = {};      ///< What else `compute_metrics` gets.
  Words label_names = {};              ///< Columns that hold labels; the model's when absent.

  // Saving.
  double save_steps = 500;  ///< Steps between checkpoints; below 1: a share of all steps.
  /// Checkpoints that are kept, the best one among them; 1 keeps the best and the newest; absent or
  /// 0: all.
  std::optional<std::int64_t> save_total_limit = {};
  bool save_only_model = false;    ///< Checkpoints leave out what resuming needs.
  bool save_on_each_node = false;  ///< Each machine saves on its own disk.
  /// Ranks look for signals behind every step, so the step under way is the last one: for
  /// pre-emption with little time. Without it, ranks may make one more step.
  bool enable_jit_checkpoint = false;
  /// The metric that says which is the best, with or without `eval_`; `loss` with
  /// `load_best_model_at_end` and with schedules that watch a metric.
  std::string metric_for_best_model = {};
  /// Whether a greater metric is better; unless its name ends in `loss`, when absent.
  std::optional<bool> greater_is_better = {};
  /// A new run drops the checkpoints of an older one in `output_dir` when its own first one is
  /// complete.
  bool overwrite_output_dir = false;
  /// The checkpoint from which `train()` continues: true for the newest one, `last` for the newest
  /// one if there is one, or a folder.
  ResumeOption resume_from_checkpoint = {};
  bool ignore_data_skip = false;  ///< A resumed epoch starts over, not where it was left.
  /// Callbacks get the arguments that they had saved too, not their state alone.
  bool restore_callback_states_from_checkpoint = false;

  // Data.
  int dataloader_num_workers = 0;     ///< Threads that make batches ahead.
  bool dataloader_pin_memory = true;  ///< Puts batches for GPUs in page-locked memory.
  bool dataloader_drop_last = false;  ///< Leaves out an incomplete last batch.
  /// Batches that each worker is ahead; 2 when absent.
  std::optional<int> dataloader_prefetch_factor = {};
  bool remove_unused_columns = true;  ///< Drops columns that the model does not take.
  /// The order of training samples.
  Word<SamplingStrategy> train_sampling_strategy = SamplingStrategy::random;
  /// The column of lengths, for `group_by_length` and `batch_rebalance`.
  std::string length_column_name = "length";
  /// Batches take as many samples as fit into this many tokens, padding included.
  std::optional<std::int64_t> max_tokens_per_batch = {};

  // Processes.
  /// Allows parameters that a loss does not use; unless `gradient_checkpointing`, when absent.
  std::optional<bool> ddp_find_unused_parameters = {};
  std::optional<double> ddp_bucket_cap_mb = {};  ///< MiB in a gradient bucket; 25 when absent.
  /// After each step every rank has rank 0's buffers; true when absent.
  std::optional<bool> ddp_broadcast_buffers = {};
  std::optional<bool> ddp_static_graph = {};  ///< Every step is like the first; false when absent.
  /// What carries tensors: nccl on GPUs and gloo on the CPU when absent.
  std::string ddp_backend = {};
  std::int64_t ddp_timeout = 1800;  ///< Seconds before a collective gives up.
  /// DeepSpeed's JSON file, which shards the model by ZeRO: a path, the JSON, or base64 of it.
  std::string deepspeed = {};
  /// Settings of loaders: `split_batches`, `dispatch_batches`, `even_batches`,
  /// `use_seedable_sampler`, `non_blocking`.
  AcceleratorConfig accelerator_config = {};
  bool use_cpu = false;  ///< Uses the CPU even where there is a GPU.

  // The hub.
  /// `me/name`; the name of `output_dir` at the token's account when absent.
  std::string hub_model_id = {};
  Word<HubStrategy> hub_strategy = HubStrategy::every_save;  ///< What is pushed, and when.
  std::string hub_token = {};  ///< The token; the one of `accelerate hub login` when absent.
  std::optional<bool> hub_private_repo = {};  ///< Whether a new repository is private.
  bool hub_always_push = false;               ///< Pushes even while an earlier push is under way.
  std::string hub_revision = {};              ///< The branch; `main` when absent.

  // Only in this library.
  /// Trains the second half of a short run twice, once resumed, and compares bit for bit.
  bool verify_resume = false;
};

/// Throws ConfigError for values that are out of range or contradict one another. The message says
/// what was found, what is allowed and how to cure it. Local. A file that `fsdp_config` names is
/// not opened.
void validate(const TrainingArguments& args);

/// Arguments that validate() accepts and in which every value is filled in that follows from
/// others. Only resolved() makes them; a Trainer works with nothing else.
class ResolvedArguments : public TrainingArguments {
 public:
  /// Returns the name of the folder output_dir, wherever the folder is.
  [[nodiscard]] std::string output_name() const;

 private:
  explicit ResolvedArguments(TrainingArguments args) : TrainingArguments(std::move(args)) {}
  friend ResolvedArguments resolved(TrainingArguments args);
};

/// Returns `args` with every value filled in that follows from other arguments: aliases
/// (`fsdp_strategy`, `activation_checkpointing`, `warmup_ratio`), `eval_steps`, `do_eval`,
/// `metric_for_best_model`, `greater_is_better`, `run_name`, `report_to` ("none" becomes an empty
/// list; "all" is left to the trackers), `save_total_limit` (0 becomes absent),
/// `dataloader_pin_memory` (false with `use_cpu`), and "~" in `output_dir`. A second call changes
/// nothing. Throws ConfigError as validate() does. Source: `TrainingArguments.__post_init__` of
/// Transformers 5.23.
[[nodiscard]] ResolvedArguments resolved(TrainingArguments args);

}  // namespace accelerate
