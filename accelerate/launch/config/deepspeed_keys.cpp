#include "accelerate/launch/config/deepspeed_keys.h"

#include <algorithm>
#include <map>

namespace accelerate::detail {
namespace {

using DeepSpeedKeys = std::vector<DeepSpeedKey>;

// clang-format off
const DeepSpeedRules kAuto{.may_be_auto = true};
const DeepSpeedRules kCount{.min = 0};
const DeepSpeedRules kFromOne{.min = 1};
const DeepSpeedRules kShare{.min = 0, .max = 1};
const DeepSpeedRules kAutoCount{.min = 0, .may_be_auto = true};
const DeepSpeedRules kAutoFactor{.min = 0, .max = 1e30, .may_be_auto = true};  // Also in fp32.
const DeepSpeedRules kAutoSteps{.min = 0, .max = 1e15, .may_be_auto = true};   // Also as an integer.
const DeepSpeedRules kDtype{.choices = {"fp32", "fp16", "bf16"}};
const DeepSpeedRules kAutoDevice{.choices = {"none", "cpu", "nvme"}, .may_be_auto = true};

const char* const kOwnBuckets = "the library sizes its own buckets";
const char* const kUnits = "units are fetched and freed whole";
const char* const kOwnCopies = "copies overlap with computing in any case";
const char* const kCode = "an option of a function that the program's own code calls";
const char* const kGone = "DeepSpeed 0.19 removed it";

void add_training(DeepSpeedKeys& keys) {
  using enum DeepSpeedKind;
  using enum DeepSpeedFate;
  keys.insert(keys.end(), {
    {"train_batch_size", integer, effect, "checked: micro-batch × accumulation steps × ranks", {.min = 1, .max = 1e9, .may_be_auto = true}},
    {"train_micro_batch_size_per_gpu", integer, effect, "checked against the loaders and train_batch_size", {.min = 1, .max = 1e9, .may_be_auto = true}},
    {"gradient_accumulation_steps", integer, effect, "micro-batches per step; 1 when absent", {.min = 1, .max = 1e6, .may_be_auto = true}},
    {"managed_gradient_accumulation", boolean, not_needed, "accumulate() decides when a step is due"},
    {"gradient_clipping", number, effect, "largest norm of the gradients; 1.0 when absent or auto", kAutoCount},
    {"communication_data_type", text, effect, "type of gradients while they travel", kDtype},
    {"seq_parallel_communication_data_type", text, not_needed, "sequences are not divided", kDtype},
    {"sequence_parallel_size", integer, python, "divides sequences of Python models", {.min = 1, .idle = "1"}},
    {"data_parallel_size", integer, not_needed, "all ranks train on data of their own", kFromOne},
    {"prescale_gradients", boolean, not_needed, "changes rounding only"},
    {"gradient_predivide_factor", number, not_needed, "changes rounding only"},
    {"gradient_allreduce_op", text, algorithm, "sums of gradients in place of means", {.choices = {"mean", "sum"}, .idle = "mean"}},
    {"disable_allgather", boolean, not_needed, "an old switch without effect in DeepSpeed"},
    {"steps_per_print", number, not_needed, "the library does not print", kAuto},
    {"wall_clock_breakdown", boolean, elsewhere, "Accelerator::profile() shows where time goes"},
    {"memory_breakdown", boolean, elsewhere, "Accelerator::profile() shows memory"},
    {"dump_state", boolean, elsewhere, "ACCELERATE_LOG_LEVEL=debug tells the settings"},
    {"log_level", text, elsewhere, "ACCELERATE_LOG_LEVEL sets the level"},
    {"disable_python_gc", boolean, not_needed, "a native program has no garbage collector"},
    {"vocabulary_size", integer, not_needed, "DeepSpeed only warns by it", kCount},
    {"dataloader_drop_last", boolean, not_needed, "the program makes its loaders"},
    {"use_data_before_expert_parallelism", boolean, not_needed, "experts are not divided"},
    {"zero_allow_untested_optimizer", boolean, not_needed, "every optimizer may be sharded"},
    {"zero_force_ds_cpu_optimizer", boolean, not_needed, "the program's optimizer steps offloaded state itself"},
    {"fp16", section, effect, "mixed precision in fp16"},
    {"fp16.enabled", boolean, effect, "mixed_precision fp16", kAuto},
    {"fp16.auto_cast", boolean, not_needed, "inputs are converted in any case", kAuto},
    {"fp16.loss_scale", number, effect, "a fixed loss scale; 0: adapted", {.min = 0, .may_be_auto = true}},
    {"fp16.initial_scale_power", integer, effect, "2 to this power is the first loss scale", {.min = 0, .max = 127, .may_be_auto = true}},
    {"fp16.loss_scale_window", integer, effect, "good steps until the scale doubles", {.min = 1, .may_be_auto = true}},
    {"fp16.hysteresis", integer, effect, "overflows until the scale halves", {.min = 1, .may_be_auto = true}},
    {"fp16.consecutive_hysteresis", boolean, effect, "a good step restores the hysteresis"},
    {"fp16.min_loss_scale", integer, effect, "least loss scale", {.min = 1, .may_be_auto = true}},
    {"fp16.fp16_master_weights_and_grads", boolean, algorithm, "optimizer steps in fp16"},
    {"fp16.opt_level", text, not_needed, "an old option of Apex", kAuto},
    {"bf16", section, effect, "mixed precision in bf16"},
    {"bf16.enabled", boolean, effect, "mixed_precision bf16", kAuto},
    {"bf16.immediate_grad_update", boolean, not_needed, "gradients are reduced during backward"},
    {"bf16.check_grad_overflow", boolean, not_needed, "bf16 has the range of fp32; NaN stays visible in the loss"},
    {"bf16.bf16_master_weights_and_grads", boolean, algorithm, "optimizer steps in bf16"},
    {"bf16.bf16_optimizer_states", boolean, algorithm, "optimizer state in bf16"},
    {"bfloat16", section, effect, "older name of bf16"},
    {"bfloat16.enabled", boolean, effect, "mixed_precision bf16", kAuto},
    {"torch_autocast", section, effect, "mixed precision by autocast"},
    {"torch_autocast.enabled", boolean, effect, "mixed_precision of torch_autocast.dtype"},
    {"torch_autocast.dtype", text, effect, "bf16 when absent", {.choices = {"bfloat16", "bf16", "torch.bfloat16", "float16", "fp16", "half", "torch.float16"}}},
    {"torch_autocast.lower_precision_safe_modules", texts, python, "names classes of Python modules"},
    {"data_types", section, effect, "types of what is kept"},
    {"data_types.grad_accum_dtype", text, not_needed, "gradients add up in the type of the parameters", kDtype},
    {"data_types.param_dtype", text, algorithm, "parameters without fp32 masters", {.choices = {"fp32", "fp16", "bf16"}, .idle = "fp32"}},
    {"data_types.buffer_dtype", text, effect, "type of floating-point buffers", kDtype},
    {"data_types.keep_in_fp32_modules", anything, not_needed, "buffer_dtype decides"},
  });
}

void add_zero(DeepSpeedKeys& keys) {
  using enum DeepSpeedKind;
  using enum DeepSpeedFate;
  const std::string zero = "zero_optimization";
  keys.insert(keys.end(), {
    {zero, section, effect, "sharding; required"},
    {zero + ".stage", integer, effect, "0 NO_SHARD, 1 and 2 SHARD_GRAD_OP, 3 FULL_SHARD", {.min = 0, .max = 3, .may_be_auto = true}},
    {zero + ".contiguous_gradients", boolean, not_needed, "gradients lie in one buffer a unit", kAuto},
    {zero + ".reduce_scatter", boolean, not_needed, "the strategy decides", kAuto},
    {zero + ".reduce_bucket_size", number, not_needed, kOwnBuckets, kAutoCount},
    {zero + ".use_multi_rank_bucket_allreduce", boolean, not_needed, kOwnBuckets},
    {zero + ".allgather_partitions", boolean, not_needed, "parameters are always gathered by all-gather", kAuto},
    {zero + ".allgather_bucket_size", number, not_needed, kOwnBuckets, kAutoCount},
    {zero + ".overlap_comm", boolean, not_needed, "communication overlaps with computing in any case", kAuto},
    {zero + ".compute_grad_norm", boolean, not_needed, "the norm is computed where something clips"},
    {zero + ".load_from_fp32_weights", boolean, not_needed, "checkpoints hold what the optimizer has"},
    {zero + ".elastic_checkpoint", boolean, not_needed, "checkpoints load into any number of ranks"},
    {zero + ".offload_param", section, effect, "where parameters live (stage 3)"},
    {zero + ".offload_param.device", text, effect, "none, cpu or nvme", kAutoDevice},
    {zero + ".offload_param.nvme_path", text, effect, "folder on a local disk, for nvme", kAuto},
    {zero + ".offload_param.max_in_cpu", number, effect, "elements that stay in memory under nvme; 0 when absent", {.min = 0, .max = 1e15}},
    {zero + ".offload_param.pin_memory", boolean, not_needed, kOwnCopies, kAuto},
    {zero + ".offload_param.buffer_count", integer, not_needed, kUnits, kCount},
    {zero + ".offload_param.buffer_size", number, not_needed, kUnits, kCount},
    {zero + ".offload_optimizer", section, effect, "where optimizer state and gradients live"},
    {zero + ".offload_optimizer.device", text, effect, "none, cpu or nvme", kAutoDevice},
    {zero + ".offload_optimizer.nvme_path", text, effect, "folder on a local disk, for nvme", kAuto},
    {zero + ".offload_optimizer.pin_memory", boolean, not_needed, kOwnCopies, kAuto},
    {zero + ".offload_optimizer.buffer_count", integer, not_needed, kOwnBuckets, kCount},
    {zero + ".offload_optimizer.buffer_size", number, not_needed, kOwnBuckets, kCount},
    {zero + ".offload_optimizer.pipeline", boolean, not_needed, "reads and writes overlap with the step"},
    {zero + ".offload_optimizer.pipeline_read", boolean, not_needed, "reads overlap with the step"},
    {zero + ".offload_optimizer.pipeline_write", boolean, not_needed, "writes overlap with the step"},
    {zero + ".offload_optimizer.fast_init", boolean, not_needed, "state is made when it is first needed"},
    {zero + ".offload_optimizer.ratio", number, not_needed, "all state is offloaded; results are the same", kShare},
    {zero + ".offload_optimizer.super_offload", boolean, device, "steps on a superchip's CPU, in kernels of its own"},
    {zero + ".offload_optimizer.cpuadam_cores_perc", number, not_needed, "OMP_NUM_THREADS decides", kShare},
    {zero + ".cpu_offload", boolean, effect, "older name of offload_optimizer.device cpu"},
    {zero + ".cpu_offload_param", boolean, effect, "older name of offload_param.device cpu"},
    {zero + ".cpu_offload_params", boolean, effect, "older name of offload_param.device cpu"},
    {zero + ".cpu_offload_use_pin_memory", boolean, not_needed, kOwnCopies},
    {zero + ".zenflow", map, algorithm, "ZenFlow: steps of important gradients first"},
    {zero + ".sub_group_size", number, not_needed, "the optimizer steps one bucket at a time", kAutoCount},
    {zero + ".stage3_prefetch_bucket_size", number, not_needed, kUnits, kAutoCount},
    {zero + ".stage3_param_persistence_threshold", number, not_needed, kUnits, kAutoCount},
    {zero + ".stage3_model_persistence_threshold", number, not_needed, kUnits, kAutoCount},
    {zero + ".stage3_max_live_parameters", number, not_needed, kUnits, kAutoCount},
    {zero + ".stage3_max_reuse_distance", number, not_needed, kUnits, kAutoCount},
    {zero + ".stage3_module_granularity_threshold", number, not_needed, kUnits},
    {zero + ".stage3_use_all_reduce_for_fetch_params", boolean, not_needed, "changes messages, not results"},
    {zero + ".stage3_allgather_sequential", boolean, not_needed, "changes messages, not results"},
    {zero + ".prefetch_bucket_size", number, not_needed, kUnits, kAutoCount},
    {zero + ".param_persistence_threshold", number, not_needed, kUnits, kAutoCount},
    {zero + ".model_persistence_threshold", number, not_needed, kUnits, kAutoCount},
    {zero + ".max_live_parameters", number, not_needed, kUnits, kAutoCount},
    {zero + ".max_reuse_distance", number, not_needed, kUnits, kAutoCount},
    {zero + ".stage3_gather_16bit_weights_on_model_save", boolean, effect, "as zero3_save_16bit_model", kAuto},
    {zero + ".gather_16bit_weights_on_model_save", boolean, effect, "as zero3_save_16bit_model", kAuto},
    {zero + ".stage3_gather_fp16_weights_on_model_save", boolean, effect, "older name of stage3_gather_16bit_weights_on_model_save", kAuto},
    {zero + ".ignore_unused_parameters", boolean, not_needed, "unused parameters are allowed"},
    {zero + ".legacy_stage1", boolean, not_needed, "there is one stage 1"},
    {zero + ".round_robin_gradients", boolean, not_needed, "ranks copy their own shards at the same time"},
    {zero + ".parameter_alignment", boolean, not_needed, "shards are aligned"},
    {zero + ".zero_hpz_partition_size", integer, not_needed, "backward gathers from all ranks; results are the same", kCount},
    {zero + ".zero_quantized_weights", boolean, algorithm, "ZeRO++: parameters travel in eight bits"},
    {zero + ".zero_quantized_nontrainable_weights", boolean, algorithm, "ZeRO++: frozen parameters in eight bits"},
    {zero + ".zero_quantized_gradients", boolean, algorithm, "ZeRO++: gradients travel in eight bits"},
    {zero + ".zeropp_loco_param", map, algorithm, kGone},
    {zero + ".mics_shard_size", integer, effect, "stage 3: ranks that share one replica (HYBRID_SHARD)", {.min = -1, .max = 1e9, .idle = "-1"}},
    {zero + ".mics_hierarchical_params_gather", boolean, not_needed, "changes messages, not results"},
    {zero + ".memory_efficient_linear", boolean, not_needed, "LibTorch's linear layer keeps only its inputs"},
    {zero + ".pipeline_loading_checkpoint", boolean, not_needed, "load_state() reads in parallel"},
    {zero + ".override_module_apply", boolean, not_needed, "serves Python's Module.apply()"},
    {zero + ".log_trace_cache_warnings", boolean, not_needed, "there is no trace to invalidate"},
    {zero + ".enable_sanity_checks", boolean, elsewhere, "ACCELERATE_DEBUG_MODE=1 checks collectives"},
    {zero + ".save_muon_momentum_buffer_in_memory", boolean, not_needed, "all of an optimizer's state is offloaded alike"},
    {zero + ".leaf_module", section, effect, "layers that stay in one piece"},
    {zero + ".leaf_module.classes", texts, effect, "as deepspeed_moe_layer_cls_names"},
    {zero + ".leaf_module.names", texts, elsewhere, "leaf_module.classes names layers by class"},
    {zero + ".leaf_module.name_suffixes", texts, elsewhere, "leaf_module.classes names layers by class"},
  });
}

void add_optimization(DeepSpeedKeys& keys) {
  using enum DeepSpeedKind;
  using enum DeepSpeedFate;
  const DeepSpeedRules momenta{.min = 0, .max = 1, .may_be_auto = true};
  keys.insert(keys.end(), {
    {"optimizer", section, effect, "the optimizer of a DummyOptim"},
    {"optimizer.type", text, effect, "Adam, AdamW, SGD, Adagrad, Lion, Muon"},
    {"optimizer.legacy_fusion", boolean, not_needed, "an old option of Apex"},
    {"optimizer.params", section, effect, "options of the optimizer"},
    {"optimizer.params.lr", number, effect, "learning rate", kAutoFactor},
    {"optimizer.params.betas", numbers, effect, "decay of the moments (Adam, AdamW, Lion, Muon)", momenta},
    {"optimizer.params.eps", number, effect, "term of the denominator", kAutoFactor},
    {"optimizer.params.weight_decay", number, effect, "weight decay", kAutoFactor},
    {"optimizer.params.momentum", number, effect, "momentum (SGD, Muon)", kAutoFactor},
    {"optimizer.params.dampening", number, effect, "dampening (SGD)", kAutoFactor},
    {"optimizer.params.nesterov", boolean, effect, "Nesterov's momentum (SGD)", kAuto},
    {"optimizer.params.lr_decay", number, effect, "decay of the rate (Adagrad)", kAutoFactor},
    {"optimizer.params.amsgrad", boolean, effect, "AMSGrad (Adam, AdamW)"},
    {"optimizer.params.adam_w_mode", boolean, effect, "Adam with decoupled weight decay; true when absent"},
    {"optimizer.params.torch_adam", boolean, not_needed, "the result is the same"},
    {"optimizer.params.bias_correction", boolean, algorithm, "moments without bias correction", {.idle = "true"}},
    {"optimizer.params.max_grad_norm", number, elsewhere, "gradient_clipping clips", kAutoCount},
    {"optimizer.params.fused", boolean, not_needed, "the library steps in its own kernels"},
    {"optimizer.params.freeze_step", integer, not_needed, "an option of 1-bit optimizers", kAutoCount},
    {"optimizer.params.cuda_aware", boolean, not_needed, "an option of 1-bit optimizers"},
    {"optimizer.params.comm_backend_name", text, not_needed, "an option of 1-bit optimizers"},
    {"optimizer.params.muon_lr", number, effect, "learning rate of Muon's matrices, instead of lr", kAutoFactor},
    {"optimizer.params.adam_lr", number, effect, "learning rate of all else under Muon, instead of lr", kAutoFactor},
    {"optimizer.params.ns_method", text, effect, "iteration of Muon: gram or standard", {.choices = {"gram", "standard"}}},
    {"optimizer.params.per_head_muon", boolean, algorithm, "Muon of each attention head by itself"},
    {"scheduler", section, effect, "the schedule of a DummyScheduler"},
    {"scheduler.type", text, effect, "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle"},
    {"scheduler.params", section, effect, "options of the schedule"},
    {"scheduler.params.last_batch_iteration", integer, not_needed, "load_state() restores the step", {.min = -1}},
    {"scheduler.params.total_num_steps", number, effect, "steps of the whole schedule", kAutoSteps},
    {"scheduler.params.warmup_min_lr", number, effect, "rate at the first step", kAutoFactor},
    {"scheduler.params.warmup_max_lr", number, effect, "rate after warmup", kAutoFactor},
    {"scheduler.params.warmup_num_steps", number, effect, "steps of warmup", kAutoSteps},
    {"scheduler.params.warmup_type", text, effect, "log or linear", {.choices = {"log", "linear"}, .may_be_auto = true}},
    {"scheduler.params.warmup_min_ratio", number, effect, "share of the rate at the first step (WarmupCosineLR)", kAutoFactor},
    {"scheduler.params.cos_min_ratio", number, effect, "share of the rate at the end (WarmupCosineLR)", kAutoFactor},
    {"scheduler.params.cycle_min_lr", number, effect, "rate at both ends of a cycle (OneCycle)", kAutoFactor},
    {"scheduler.params.cycle_max_lr", number, effect, "rate in the middle of a cycle (OneCycle)", kAutoFactor},
    {"scheduler.params.decay_lr_rate", number, effect, "decay after the cycle (OneCycle)", kCount},
    {"scheduler.params.cycle_first_step_size", integer, effect, "steps that raise the rate (OneCycle)", kFromOne},
    {"scheduler.params.cycle_second_step_size", integer, effect, "steps that lower the rate (OneCycle)", kFromOne},
    {"scheduler.params.cycle_first_stair_count", integer, effect, "stairs on the way up (OneCycle)", kCount},
    {"scheduler.params.cycle_second_stair_count", integer, effect, "stairs on the way down (OneCycle)", kCount},
    {"scheduler.params.decay_step_size", integer, effect, "steps of one decay (OneCycle)", kCount},
    {"scheduler.params.cycle_momentum", boolean, effect, "the momentum cycles too (OneCycle)"},
    {"scheduler.params.cycle_min_mom", number, effect, "least momentum (OneCycle)", kCount},
    {"scheduler.params.cycle_max_mom", number, effect, "largest momentum (OneCycle)", kCount},
    {"scheduler.params.lr_range_test_min_lr", number, algorithm, "LRRangeTest", kCount},
    {"scheduler.params.lr_range_test_step_rate", number, algorithm, "LRRangeTest", kCount},
    {"scheduler.params.lr_range_test_step_size", integer, algorithm, "LRRangeTest", kFromOne},
    {"scheduler.params.lr_range_test_staircase", boolean, algorithm, "LRRangeTest"},
    {"scheduler.params.decay_mom_rate", number, effect, "decay of the momentum (OneCycle)", kCount},
  });
}

void add_services(DeepSpeedKeys& keys) {
  using enum DeepSpeedKind;
  using enum DeepSpeedFate;
  const DeepSpeedRules validation{.choices = {"ignore", "warn", "fail"}};
  const std::string act = "activation_checkpointing", flops = "flops_profiler", aio = "aio";
  keys.insert(keys.end(), {
    {act, section, not_needed, kCode},
    {act + ".partition_activations", boolean, not_needed, kCode, kAuto},
    {act + ".partitioned_activations", boolean, not_needed, kCode},
    {act + ".cpu_checkpointing", boolean, not_needed, kCode, kAuto},
    {act + ".contiguous_memory_optimization", boolean, not_needed, kCode, kAuto},
    {act + ".number_checkpoints", integer, not_needed, kCode, kAutoCount},
    {act + ".synchronize_checkpoint_boundary", boolean, not_needed, kCode, kAuto},
    {act + ".profile", boolean, not_needed, kCode, kAuto},
    {aio, section, not_needed, "how DeepSpeed reads disks"},
    {aio + ".block_size", integer, not_needed, "the library sizes its own reads", kAutoCount},
    {aio + ".queue_depth", integer, not_needed, "the library sizes its own queue", kAutoCount},
    {aio + ".intra_op_parallelism", integer, not_needed, "the library has its own threads", kAutoCount},
    {aio + ".thread_count", integer, not_needed, "the library has its own threads", kAutoCount},
    {aio + ".single_submit", boolean, not_needed, "the library submits its own reads"},
    {aio + ".overlap_events", boolean, not_needed, "reads and writes overlap"},
    {aio + ".use_gds", boolean, device, "reads disks into GPU memory by cuFile"},
    {flops, section, elsewhere, "Accelerator::profile() counts operations"},
    {flops + ".enabled", boolean, elsewhere, "Accelerator::profile() counts operations"},
    {flops + ".recompute_fwd_factor", number, not_needed, "an option of that profiler", kCount},
    {flops + ".profile_step", integer, not_needed, "an option of that profiler", kCount},
    {flops + ".module_depth", integer, not_needed, "an option of that profiler"},
    {flops + ".top_modules", integer, not_needed, "an option of that profiler", kCount},
    {flops + ".detailed", boolean, not_needed, "an option of that profiler"},
    {flops + ".output_file", text, not_needed, "an option of that profiler"},
    {"comms_logger", section, elsewhere, "Accelerator::profile() shows collectives"},
    {"comms_logger.enabled", boolean, elsewhere, "Accelerator::profile() shows collectives"},
    {"comms_logger.verbose", boolean, not_needed, "an option of that logger"},
    {"comms_logger.prof_all", boolean, not_needed, "an option of that logger"},
    {"comms_logger.prof_ops", texts, not_needed, "an option of that logger"},
    {"comms_logger.debug", boolean, not_needed, "an option of that logger"},
    {"timers", section, not_needed, "the library has no such timers"},
    {"timers.throughput", map, not_needed, "the library has no such timers"},
    {"checkpoint", section, not_needed, "save_state() writes all ranks' parts in parallel"},
    {"checkpoint.tag_validation", text, not_needed, "ranks always agree on a folder's name", validation},
    {"checkpoint.load_universal", boolean, not_needed, "load_state() sees what a folder holds"},
    {"checkpoint.use_node_local_storage", boolean, elsewhere, "save_on_each_node of ProjectConfiguration does it"},
    {"checkpoint.parallel_write", map, not_needed, "all ranks write"},
    {"checkpoint.checkpoint_serialization", boolean, not_needed, "an option of DeepSpeed's writer"},
    {"checkpoint.writer", map, not_needed, "an option of DeepSpeed's writer"},
    {"datastates_ckpt", map, python, "a Python library that writes checkpoints"},
    {"nebula", map, python, kGone},
    {"nebula.enabled", boolean, python, "a Python library that writes checkpoints"},
    {"pipeline", map, not_needed, "options of Python's PipelineModule"},
  });
  for (const char* tracker : {"tensorboard", "csv_monitor", "wandb", "comet"}) {
    const std::string name = tracker;
    keys.insert(keys.end(), {
      {name, map, elsewhere, "log_with of AcceleratorOptions names trackers"},
      {name + ".enabled", boolean, elsewhere, "log_with of AcceleratorOptions names trackers"},
    });
  }
}

void add_refused(DeepSpeedKeys& keys) {
  using enum DeepSpeedKind;
  using enum DeepSpeedFate;
  struct Feature {
    const char* name;
    DeepSpeedFate fate;
    const char* why;
  };
  const Feature features[] = {
      {"amp", python, "Apex, a Python library; fp16 and bf16 do the same"},
      {"autotuning", python, "starts a Python script again and again"},
      {"hybrid_engine", python, "kernels for Python models"},
      {"expert_parallel", python, "replaces modules of Python models"},
      {"msamp", python, "MS-AMP, a Python library"},
      {"data_efficiency", algorithm, "curriculum learning and random layer-token drop"},
      {"curriculum_learning", algorithm, "curriculum learning"},
      {"progressive_layer_drop", algorithm, "progressive layer drop"},
      {"eigenvalue", algorithm, "quantization by eigenvalues"},
      {"quantize_training", algorithm, "mixture of quantization"},
      {"elasticity", algorithm, "a batch size by the number of ranks"}};
  for (const Feature& feature : features) {
    keys.insert(keys.end(), {
      {feature.name, map, feature.fate, feature.why},
      {std::string(feature.name) + ".enabled", boolean, feature.fate, feature.why, kAuto},
    });
  }
  keys.insert(keys.end(), {
    {"sparse_gradients", boolean, not_needed, "gradients of embeddings are as the layer makes them"},
    {"sparse_attention", map, python, "kernels for Python models"},
    {"compression_training", map, algorithm, "quantization and pruning in training"},
    {"weight_quantization", map, algorithm, "quantized weights"},
    {"graph_harvesting", boolean, not_needed, "changes speed only"},
    {"tensor_parallel", map, python, "divides layers of Python models"},
    {"tensor_parallel.autotp_size", integer, python, "divides layers of Python models", {.min = 0, .idle = "1"}},
    {"compile", map, python, "compiles Python code"},
    {"compile.deepcompile", boolean, python, "compiles Python code"},
    {"compile.enabled", boolean, python, "compiles Python code"},
  });
}
// clang-format on

}  // namespace

const std::vector<DeepSpeedKey>& deepspeed_keys() {
  static const DeepSpeedKeys kKeys = [] {
    DeepSpeedKeys keys;
    add_training(keys);
    add_zero(keys);
    add_optimization(keys);
    add_services(keys);
    add_refused(keys);
    return keys;
  }();
  return kKeys;
}

const DeepSpeedKey* find_deepspeed_key(std::string_view path) {
  static const auto kByPath = [] {
    std::map<std::string_view, const DeepSpeedKey*> map;
    for (const auto& key : deepspeed_keys()) map.emplace(key.path, &key);
    return map;
  }();
  const auto found = kByPath.find(path);
  return found == kByPath.end() ? nullptr : found->second;
}

bool is_refused(DeepSpeedFate fate) {
  using enum DeepSpeedFate;
  return fate == device || fate == python || fate == algorithm;
}

std::string_view words_of(DeepSpeedFate fate) {
  using enum DeepSpeedFate;
  switch (fate) {
    case effect:
      return "effect";
    case not_needed:
      return "none needed";
    case elsewhere:
      return "asked for elsewhere";
    case device:
      return "refused: serves a device that LibTorch has not";
    case python:
      return "refused: serves Python code";
    case algorithm:
      return "refused: an algorithm that is not built";
  }
  return "";
}

}  // namespace accelerate::detail
