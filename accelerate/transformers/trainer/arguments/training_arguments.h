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
#include "accelerate/transformers/trainer/arguments/words.h"

namespace accelerate {

struct TrainingArguments {
  // First the fields of the example in docs/trainer.md: designated initializers need this order.
  std::string output_dir = "trainer_output";     ///< Folder of checkpoints, results and the model.
  double learning_rate = 5e-5;                   ///< Greatest rate of the schedule.
  std::int64_t per_device_train_batch_size = 8;  ///< Samples in a batch of each rank.
  std::int64_t per_device_eval_batch_size = 8;   ///< As above, in evaluation and prediction.
  double num_train_epochs = 3.0;                 ///< Passes over the data; 1.5 is allowed.
  FsdpConfigOption fsdp_config = {};             ///< How models are sharded.
  FsdpOption fsdp = {};                          ///< Whether models are sharded.
  FsdpOption fsdp_strategy = {};                 ///< Another name of `fsdp`.
  double weight_decay = 0.0;                     ///< Decays all parameters but biases and norms.
  Word<IntervalStrategy> eval_strategy = IntervalStrategy::no;  ///< When train() evaluates.
  Word<SaveStrategy> save_strategy = SaveStrategy::steps;       ///< When train() saves.
  bool load_best_model_at_end = false;  ///< train() ends with the best checkpoint's weights.
  bool push_to_hub = false;             ///< Pushes the model; see hub_strategy.

  // Training.
  std::int64_t max_steps = -1;  ///< Optimizer steps; overrides num_train_epochs. -1: unset.
  std::optional<std::int64_t> gradient_accumulation_steps = {};  ///< Batches in a step; default 1.
  bool average_tokens_across_devices = true;  ///< Losses are means over the tokens of all ranks.
  double max_grad_norm = 1.0;                 ///< Greatest norm of gradients; 0: no clipping.
  std::string lr_scheduler_type = "linear";   ///< A name that get_scheduler() knows.
  SchedulerKwargs lr_scheduler_kwargs = {};   ///< What only some schedules take.
  double warmup_steps = 0;  ///< Steps in which the rate rises; below 1: a share of all.
  std::optional<double> warmup_ratio = {};      ///< Another name of a warmup_steps below 1.
  std::uint64_t seed = 42;                      ///< Seed of new heads, dropout and orders.
  std::optional<std::uint64_t> data_seed = {};  ///< Seed of orders alone; default: `seed`.
  bool full_determinism = false;                ///< Uses only kernels whose results repeat.
  bool do_train = false, do_eval = false, do_predict = false;  ///< For the program to read.

  // Optimizer.
  Word<OptimizerName> optim = OptimizerName::adamw_torch_fused;
  std::string optim_args = {};  ///< What only some optimizers take: "momentum=0.9,nesterov=true".
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double label_smoothing_factor = 0.0;  ///< Share of a label that is spread over all classes.

  // Precision and memory.
  std::optional<bool> bf16 = {};        ///< Mixed precision in bfloat16; default: the launcher's.
  std::optional<bool> fp16 = {};        ///< Mixed precision in float16; default: the launcher's.
  bool bf16_full_eval = false;          ///< Evaluates with weights in bfloat16.
  bool fp16_full_eval = false;          ///< Evaluates with weights in float16.
  std::optional<bool> tf32 = {};        ///< Multiplies matrices in TF32, on GPUs that have it.
  bool gradient_checkpointing = false;  ///< Recomputes layers in backward: takes less memory.
  std::optional<bool> activation_checkpointing = {};  ///< Another name of gradient_checkpointing.
  bool auto_find_batch_size = false;  ///< Retries with a smaller batch when memory runs out.
  std::optional<std::int64_t> torch_empty_cache_steps = {};  ///< Frees cached memory every N steps.
  std::optional<double> neftune_noise_alpha = {};  ///< Noise on embeddings during training.
  bool use_cache = false;  ///< Has no effect: models cache no keys while they train.

  // Logging.
  Word<IntervalStrategy> logging_strategy = IntervalStrategy::steps;
  double logging_steps = 500;       ///< Steps between logs; below 1: a share of all.
  bool logging_first_step = false;  ///< Logs the first step too.
  bool log_on_each_node = true;     ///< Logs on the first rank of each machine, not on one alone.
  bool logging_nan_inf_filter = true;  ///< Logged losses leave out NaN and infinity.
  Words report_to = {};       ///< Trackers: "tensorboard", "jsonl", … or "all"; "none" or empty.
  std::string run_name = {};  ///< Name of the run in trackers; default: output_dir.
  std::string project = "huggingface";                     ///< For trackers that group runs.
  std::optional<bool> disable_tqdm = {};                   ///< Lines instead of progress bars.
  Word<Verbosity> log_level = Verbosity::passive;          ///< Level on the first rank.
  Word<Verbosity> log_level_replica = Verbosity::warning;  ///< Level on the other ranks.
  Word<CountedTokens> include_num_input_tokens_seen = CountedTokens::no;

  // Evaluation.
  std::optional<double> eval_steps = {};  ///< Steps between evaluations; default: logging_steps.
  double eval_delay = 0;                  ///< Steps or epochs before the first evaluation.
  bool eval_on_start = false;             ///< Evaluates before the first step.
  bool prediction_loss_only = false;      ///< Evaluation computes only the loss.
  /// Batches between moves of predictions to host memory; default: all.
  std::optional<std::int64_t> eval_accumulation_steps = {};
  bool eval_do_concat_batches = true;  ///< Predictions are one tensor, not one for each batch.
  bool batch_eval_metrics = false;     ///< compute_metrics is called for each batch.
  Words include_for_metrics = {};      ///< "inputs", "loss": what else compute_metrics gets.
  Words label_names = {};              ///< Columns that hold labels; default: the model's.

  // Saving.
  double save_steps = 500;  ///< Steps between checkpoints; below 1: a share of all.
  std::optional<std::int64_t> save_total_limit = {};  ///< Checkpoints that are kept; default: all.
  bool save_only_model = false;                       ///< Leaves out what resuming needs.
  bool save_on_each_node = false;                     ///< Each machine saves on its own disk.
  std::string metric_for_best_model = {};  ///< Default "loss" with load_best_model_at_end.
  /// Whether a greater metric is better; default: unless its name ends in "loss".
  std::optional<bool> greater_is_better = {};
  bool overwrite_output_dir = false;         ///< A new run drops the checkpoints of an older one.
  ResumeOption resume_from_checkpoint = {};  ///< The checkpoint that train() goes on from.
  bool ignore_data_skip = false;  ///< A resumed epoch starts over, not where it was left.
  bool restore_callback_states_from_checkpoint = false;  ///< Gives callbacks saved arguments too.

  // Data.
  int dataloader_num_workers = 0;                      ///< Threads that make batches ahead.
  bool dataloader_pin_memory = true;                   ///< Puts GPU batches in page-locked memory.
  bool dataloader_drop_last = false;                   ///< Leaves out an incomplete last batch.
  std::optional<int> dataloader_prefetch_factor = {};  ///< Batches each worker is ahead; default 2.
  bool remove_unused_columns = true;  ///< Drops columns that the model does not take.
  Word<SamplingStrategy> train_sampling_strategy = SamplingStrategy::random;
  std::string length_column_name = "length";  ///< Column of lengths, for orders by length.
  /// Batches take as many samples as fit into this many tokens, padding included.
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
  bool use_cpu = false;  ///< Uses the CPU even where there is a GPU.

  // The hub.
  std::string hub_model_id = {};  ///< "me/name"; default: the token's account, output_dir's name.
  Word<HubStrategy> hub_strategy = HubStrategy::every_save;
  std::string hub_token = {};                 ///< Default: as `accelerate hub login` stored it.
  std::optional<bool> hub_private_repo = {};  ///< Whether a new repository is private.
  bool hub_always_push = false;               ///< Pushes even while an earlier push is under way.
  std::string hub_revision = {};              ///< The branch; default: "main".

  // Only in this library.
  bool verify_resume = false;  ///< First proves that resuming repeats the uncut run, bit for bit.
};

/// Throws ConfigError for values that are out of range or contradict one another. The message says
/// what was found, what is allowed and how to cure it. Local. A file that `fsdp_config` names is
/// not opened.
void validate(const TrainingArguments& args);

/// Arguments that validate() accepts and in which every value is filled in that follows from
/// others. Only resolved() makes them; a Trainer works with nothing else.
class ResolvedArguments : public TrainingArguments {
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
