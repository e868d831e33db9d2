// The rows of the table. Names, defaults and choices are upstream's (accelerate 1.15.0,
// commands/launch.py); a test compares them with its parser. The sentences are ours.
#include "accelerate/launch/flags.h"

namespace accelerate {
namespace {

using enum FlagKind;
using enum FlagStatus;
using Rows = std::vector<Flag>;

// Upstream's parser spells one of them "torhchxla_trace_once"; its own library does not.
const std::vector<std::string> kDynamoBackends = {"no",
                                                  "eager",
                                                  "aot_eager",
                                                  "inductor",
                                                  "aot_ts_nvfuser",
                                                  "nvprims_nvfuser",
                                                  "cudagraphs",
                                                  "ofi",
                                                  "fx2trt",
                                                  "onnxrt",
                                                  "tensorrt",
                                                  "aot_torchxla_trace_once",
                                                  "torchxla_trace_once",
                                                  "tvm"};
const std::vector<std::string> kDynamoModes = {"default", "reduce-overhead", "max-autotune"};

// One flag a line: a table is read down its columns.
// clang-format off
Rows general_rows() {
  const auto group = FlagGroup::general;
  return {
      {"config_file", text, group, "", "Configuration file to take values from; the default is the one that `accelerate config` writes.", works},
      {"quiet", toggle, group, "False", "Do not report which rank failed; the exit code stays.", works, {}, 'q'},
      {"debug", toggle, group, "False", "Say where ranks run; have them refuse tensors of another device than theirs in collectives.", works},
      {"module", toggle, group, "False", "The program is a Python module, run as `python3 -m`.", works, {}, 'm'},
      {"no_python", toggle, group, "False", "Run a .py file itself instead of handing it to python3.", works},
      {"grace_period", number, group, "30.0", "Seconds that ranks get between SIGTERM and SIGKILL.", works},
  };
}

Rows hardware_rows() {
  const auto group = FlagGroup::hardware;
  return {
      {"cpu", toggle, group, "False", "Train on the CPU even where there are GPUs.", works},
      {"multi_gpu", toggle, group, "False", "Train on several GPUs.", works},
      {"tpu", toggle, group, "False", "Train on TPUs.", not_applicable},
  };
}

Rows resource_rows() {
  const auto group = FlagGroup::resources;
  return {
      {"num_processes", integer, group, "", "Number of ranks to start; the default is one a GPU, or one.", works},
      {"num_machines", integer, group, "", "Number of machines; only 1 so far.", later},
      {"mixed_precision", choice, group, "", "Type that the forward pass computes in.", works, {"no", "fp16", "bf16", "fp8"}},
      {"num_cpu_threads_per_process", integer, group, "", "OMP_NUM_THREADS of each rank; the default is OMP_NUM_THREADS, or physical cores divided by ranks on the CPU.", works},
      {"enable_cpu_affinity", toggle, group, "False", "Bind each rank to cores of its own, as several ranks on the CPU are by default; on GPUs to the cores near its GPU.", works},
      {"no_cpu_affinity", toggle, group, "False", "Leave it to the system which cores a rank runs on.", works},
      {"gpu_ids", text, group, "", "GPUs to use on this machine, as 0,2,3 or all.", works},
      {"dynamo_backend", choice, group, "", "Compiler of a Python program that uses torch.compile.", carried, kDynamoBackends},
      {"dynamo_mode", choice, group, "default", "Mode of that compiler.", carried, kDynamoModes},
      {"dynamo_use_fullgraph", toggle, group, "False", "Compile one graph without breaks.", carried},
      {"dynamo_use_dynamic", toggle, group, "False", "Compile for changing shapes.", carried},
      {"dynamo_use_regional_compilation", toggle, group, "False", "Compile repeated blocks once.", carried},
  };
}

Rows paradigm_rows() {
  const auto group = FlagGroup::paradigm;
  return {
      {"use_fsdp", toggle, group, "False", "Shard parameters, gradients and optimizer state (FSDP).", works},
      {"use_deepspeed", toggle, group, "False", "Use DeepSpeed's ZeRO settings.", works},
      {"use_megatron_lm", toggle, group, "False", "Use Megatron-LM's settings, which Python programs read; native ones refuse them.", works},
      {"use_parallelism_config", toggle, group, "False", "Combine kinds of parallelism in a Python program; native ones refuse it. Needs --use_fsdp and --fsdp_version 2.", works},
  };
}

Rows rendezvous_rows() {
  const auto group = FlagGroup::rendezvous;
  return {
      {"main_process_ip", text, group, "", "Address that rank 0 listens on; the default is 127.0.0.1.", works},
      {"main_process_port", integer, group, "", "Port that rank 0 listens on; the default, and 0, is a free one.", works},
      {"machine_rank", integer, group, "", "Number of this machine among several.", later},
      {"same_network", toggle, group, "False", "All machines are on one local network.", no_effect},
      {"rdzv_backend", text, group, "static", "How machines find each other.", later},
      {"rdzv_conf", text, group, "", "Further settings of the rendezvous.", later},
      {"max_restarts", integer, group, "0", "How often to start a failed group again.", later},
      {"monitor_interval", number, group, "0.1", "Seconds between looks at the ranks; they are watched without polling here.", no_effect},
      {"tee", text, group, "0", "Copy what ranks write into files.", later, {}, 't'},
      {"log_dir", text, group, "", "Folder for the output of ranks.", later},
      {"role", text, group, "default", "Name of the group, exported as ROLE_NAME.", works},
  };
}

Rows fsdp_rows() {
  const auto group = FlagGroup::fsdp;
  return {
      {"fsdp_version", choice, group, "1", "Version of FSDP to follow.", carried, {"1", "2"}},
      {"fsdp_sharding_strategy", text, group, "FULL_SHARD", "Version 1: what is sharded.", carried},
      {"fsdp_reshard_after_forward", text, group, "true", "Version 2: free gathered parameters after the forward pass, true or false. Version 1: another name of --fsdp_sharding_strategy.", carried},
      {"fsdp_offload_params", truth, group, "false", "Keep parameters and gradients in CPU memory.", carried},
      {"fsdp_auto_wrap_policy", text, group, "", "How layers are grouped into units.", carried},
      {"fsdp_transformer_layer_cls_to_wrap", text, group, "", "Classes that are a unit each, separated by commas.", carried, {}, '\0', "FSDP_TRANSFORMER_CLS_TO_WRAP"},
      {"fsdp_min_num_params", integer, group, "100000000", "Smallest unit of SIZE_BASED_WRAP, in parameters.", carried},
      {"fsdp_backward_prefetch", text, group, "", "When the next unit is gathered in the backward pass.", carried},
      {"fsdp_state_dict_type", text, group, "", "Form of saved state.", carried},
      {"fsdp_forward_prefetch", truth, group, "false", "Gather the next unit during the forward pass.", carried},
      {"fsdp_use_orig_params", truth, group, "true", "Allow frozen and trained parameters in one unit.", carried},
      {"fsdp_cpu_ram_efficient_loading", truth, group, "true", "Only rank 0 reads the weights; needs --fsdp_sync_module_states.", carried},
      {"fsdp_sync_module_states", truth, group, "true", "Send rank 0's parameters to all ranks at the start.", carried},
      {"fsdp_activation_checkpointing", truth, group, "false", "Compute activations again in the backward pass of a Python program; native ones refuse true.", carried},
      {"fsdp_activation_checkpointing_offload", truth, group, "false", "Keep the inputs of checkpointed layers in CPU memory, in a Python program; native ones refuse true.", carried},
  };
}

Rows deepspeed_rows() {
  const auto group = FlagGroup::deepspeed;
  return {
      {"deepspeed_config_file", text, group, "", "DeepSpeed's own JSON file, for Python programs; native ones refuse it.", carried, {}, '\0', "ACCELERATE_DEEPSPEED_CONFIG_FILE"},
      {"zero_stage", integer, group, "", "Stage of ZeRO, 0 to 3.", carried, {}, '\0', "ACCELERATE_DEEPSPEED_ZERO_STAGE"},
      {"offload_optimizer_device", text, group, "", "Where optimizer state lives; native programs refuse nvme.", carried, {}, '\0', "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"},
      {"offload_param_device", text, group, "", "Where parameters live; native programs refuse nvme.", carried, {}, '\0', "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"},
      {"offload_optimizer_nvme_path", text, group, "", "Folder for optimizer state on NVMe.", carried, {}, '\0', "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH"},
      {"offload_param_nvme_path", text, group, "", "Folder for parameters on NVMe.", carried, {}, '\0', "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH"},
      {"gradient_accumulation_steps", integer, group, "", "Micro-batches a step.", carried, {}, '\0', "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"},
      {"gradient_clipping", number, group, "", "Largest norm of the gradients of a Python program; native ones clip in their loop and refuse another than 0.", carried, {}, '\0', "ACCELERATE_GRADIENT_CLIPPING"},
      {"zero3_init_flag", truth, group, "", "Stage 3: shard parameters while the model of a Python program is built; native ones use init_empty_weights().", carried, {}, '\0', "ACCELERATE_DEEPSPEED_ZERO3_INIT"},
      {"zero3_save_16bit_model", truth, group, "", "Stage 3: save the weights of a Python program in 16 bits; native ones save what the optimizer has.", carried, {}, '\0', "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL"},
      {"deepspeed_hostfile", text, group, "", "List of machines.", later},
      {"deepspeed_exclusion_filter", text, group, "", "Machines to leave out.", later},
      {"deepspeed_inclusion_filter", text, group, "", "Machines to use.", later},
      {"deepspeed_multinode_launcher", text, group, "", "Program that starts ranks on other machines.", later},
      {"deepspeed_moe_layer_cls_names", text, group, "", "Mixture-of-experts classes, separated by commas, each module of which is one unit.", carried, {}, '\0', "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES"},
  };
}

Rows megatron_rows() {
  const auto group = FlagGroup::megatron;
  return {
      {"megatron_lm_tp_degree", integer, group, "1", "Ranks that share each layer.", carried},
      {"megatron_lm_pp_degree", integer, group, "1", "Stages of the pipeline.", carried},
      {"megatron_lm_num_micro_batches", integer, group, "", "Micro-batches in the pipeline.", carried},
      {"megatron_lm_sequence_parallelism", text, group, "", "Split the sequence where layers are not split.", carried},
      {"megatron_lm_recompute_activations", text, group, "", "Compute activations again in the backward pass.", carried},
      {"megatron_lm_use_distributed_optimizer", text, group, "", "Shard optimizer state over data-parallel ranks.", carried},
      {"megatron_lm_gradient_clipping", number, group, "1.0", "Largest norm of the gradients; 0 for none.", carried},
      {"megatron_lm_use_custom_fsdp", boolean, group, "False", "Use Megatron's own FSDP.", carried},
      {"megatron_lm_no_load_optim", boolean, group, "False", "Do not load optimizer state.", carried},
      {"megatron_lm_no_save_optim", boolean, group, "False", "Do not save optimizer state.", carried},
      {"megatron_lm_eod_mask_loss", boolean, group, "False", "Leave end-of-document tokens out of the loss.", carried},
      {"megatron_lm_optimizer_cpu_offload", boolean, group, "False", "Run the optimizer on the CPU.", carried},
      {"megatron_lm_overlap_cpu_optimizer_d2h_h2d", boolean, group, "False", "Overlap that optimizer with its copies.", carried},
      {"megatron_lm_use_precision_aware_optimizer", boolean, group, "False", "Keep optimizer state in lower precision.", carried},
      {"megatron_lm_decoder_last_pipeline_num_layers", integer, group, "", "Layers in the last stage.", carried},
      {"megatron_lm_recompute_granularity", text, group, "", "What is computed again: full or selective.", carried},
      {"megatron_lm_recompute_method", text, group, "", "How layers to compute again are chosen: uniform or block.", carried},
      {"megatron_lm_recompute_num_layers", integer, group, "", "How many layers are computed again.", carried},
      {"megatron_lm_attention_backend", text, group, "", "Attention kernel.", carried},
      {"megatron_lm_expert_model_parallel_size", integer, group, "", "Ranks that share the experts.", carried},
      {"megatron_lm_context_parallel_size", integer, group, "", "Ranks that share a sequence.", carried},
      {"megatron_lm_attention_dropout", number, group, "", "Dropout of attention weights.", carried},
      {"megatron_lm_hidden_dropout", number, group, "", "Dropout of hidden states.", carried},
      {"megatron_lm_attention_softmax_in_fp32", text, group, "", "Compute the softmax of attention in fp32.", carried},
      {"megatron_lm_expert_tensor_parallel_size", integer, group, "", "Ranks that share each expert.", carried},
      {"megatron_lm_calculate_per_token_loss", text, group, "", "Average the loss over tokens.", carried},
      {"megatron_lm_use_rotary_position_embeddings", text, group, "", "Use rotary positions.", carried},
  };
}

Rows parallelism_rows() {
  const auto group = FlagGroup::parallelism;
  return {
      {"parallelism_config_dp_replicate_size", integer, group, "1", "Replicas of the whole model.", carried},
      {"parallelism_config_dp_shard_size", integer, group, "1", "Ranks that share a model's shards.", carried},
      {"parallelism_config_tp_size", integer, group, "1", "Ranks that share each layer.", carried},
      {"parallelism_config_cp_size", integer, group, "1", "Ranks that share a sequence.", carried},
      {"parallelism_config_cp_backend", choice, group, "torch", "How sequences are shared.", carried, {"torch"}},
      {"parallelism_config_cp_comm_strategy", text, group, "allgather", "How keys and values travel: allgather or alltoall.", carried},
      {"parallelism_config_sp_size", integer, group, "1", "Ranks that share a sequence head by head.", carried},
      {"parallelism_config_sp_backend", choice, group, "deepspeed", "How that is done.", carried, {"deepspeed"}},
      {"parallelism_config_sp_seq_length", text, group, "", "Length of all sequences, where it is fixed.", carried},
      {"parallelism_config_sp_seq_length_is_variable", boolean, group, "True", "Lengths change between batches.", carried},
      {"parallelism_config_sp_attn_implementation", text, group, "sdpa", "Attention kernel.", carried},
  };
}

Rows fp8_rows() {
  const auto group = FlagGroup::fp8;
  return {
      {"fp8_backend", choice, group, "", "Library that computes in FP8.", carried, {"ao", "te", "msamp"}},
      {"fp8_use_autocast_during_eval", toggle, group, "False", "te: also in evaluation.", carried},
      {"fp8_margin", integer, group, "0", "te: margin of the scaling factor.", carried},
      {"fp8_interval", integer, group, "1", "te: steps between new scaling factors.", carried},
      {"fp8_format", choice, group, "HYBRID", "te: layout of the eight bits.", carried, {"HYBRID", "E4M3", "E5M2"}},
      {"fp8_amax_history_len", integer, group, "1024", "te: steps of history behind a scaling factor.", carried},
      {"fp8_amax_compute_algo", choice, group, "most_recent", "te: how that history becomes a factor.", carried, {"max", "most_recent"}},
      {"fp8_override_linear_precision", bits, group, "False,False,False", "te: three booleans: compute fprop, dgrad, wgrad in higher precision.", carried},
      {"fp8_opt_level", choice, group, "O2", "msamp: how much is communicated in eight bits.", carried, {"O1", "O2"}},
      {"fp8_enable_fsdp_float8_all_gather", bit, group, "true", "ao: gather shards in eight bits.", carried},
      {"fp8_pad_inner_dim", bit, group, "true", "ao: pad the inner dimension.", carried},
  };
}

Rows foreign_rows() {
  return {
      {"mpirun_hostfile", text, FlagGroup::mpi, "", "List of machines for mpirun.", later},
      {"tpu_cluster", toggle, FlagGroup::tpu, "False", "Use a TPU pod.", not_applicable},
      {"no_tpu_cluster", toggle, FlagGroup::tpu, "False", "Do not use a TPU pod.", no_effect},
      {"tpu_use_sudo", toggle, FlagGroup::tpu, "False", "Use sudo on the pod.", not_applicable},
      {"vm", text, FlagGroup::tpu, "", "Machine of the pod.", not_applicable},
      {"env", text, FlagGroup::tpu, "", "Variable for the pod.", not_applicable},
      {"main_training_function", text, FlagGroup::tpu, "", "Function that TPU processes run.", no_effect},
      {"downcast_bf16", toggle, FlagGroup::tpu, "False", "Store fp32 as bf16 on TPUs.", not_applicable},
      {"aws_access_key_id", text, FlagGroup::aws, "", "Key of an Amazon account.", not_applicable},
      {"aws_secret_access_key", text, FlagGroup::aws, "", "Secret of that key.", not_applicable},
  };
}

// clang-format on
Rows all_rows() {
  Rows all;
  for (const auto& rows : {general_rows(), hardware_rows(), resource_rows(), paradigm_rows(),
                           rendezvous_rows(), fsdp_rows(), deepspeed_rows(), megatron_rows(),
                           parallelism_rows(), fp8_rows(), foreign_rows()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace

std::span<const Flag> launch_flags() {
  static const Rows rows = all_rows();
  return rows;
}

}  // namespace accelerate
