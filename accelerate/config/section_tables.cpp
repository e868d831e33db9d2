// The keys of a configuration file. docs/config_keys.md says what each key does here and which test
// covers it; a test compares it with these tables. Source of names, types and choices: the launch
// parser, the questionnaire and the data classes of Hugging Face Accelerate 1.15.
#include "accelerate/config/key_table.h"

namespace accelerate::detail {
namespace {

const KeyRules kAtLeastOne{.min = 1};

}  // namespace

// clang-format off
const KeyTable<ClusterConfig>& cluster_table() {
  using C = ClusterConfig;
  static const KeyTable<C> kTable{"", "", {
    key("compute_environment", &C::compute_environment, "Where the run happens: LOCAL_MACHINE."),
    key("distributed_type", &C::distributed_type, "How the processes work together.", {.synonyms = {{"TPU", "XLA"}, {"false", "NO"}}}),
    key("mixed_precision", &C::mixed_precision, "Element type of autocast regions.", {.synonyms = {{"false", "no"}}}),
    key("use_cpu", &C::use_cpu, "Run on the CPU even where a GPU is present."),
    key("debug", &C::debug, "Say where ranks run, and refuse tensors of a wrong device."),
    key("num_processes", &C::num_processes, "Ranks on all machines together; -1 leaves it to the command line.", {.min = -1, .not_zero = true}),
    key("machine_rank", &C::machine_rank, "Index of this machine.", {.min = 0}),
    key("num_machines", &C::num_machines, "Number of machines.", kAtLeastOne),
    key("gpu_ids", &C::gpu_ids, "GPUs of this machine, 'all' or a comma list."),
    key("main_process_ip", &C::main_process_ip, "Address of the machine of rank 0."),
    key("main_process_port", &C::main_process_port, "Port on which the ranks meet; 0 takes a free one.", {.min = 0, .max = 65535}),
    key("rdzv_backend", &C::rdzv_backend, "How machines find each other: static, c10d, …"),
    key("same_network", &C::same_network, "Whether all machines are in one local network."),
    key("main_training_function", &C::main_training_function, "Function that TPU launches call."),
    key("enable_cpu_affinity", &C::enable_cpu_affinity, "Bind each rank to the cores near its GPU."),
    key("downcast_bf16", &C::downcast_bf16, "bf16 for both float and double on TPU.", {.choices = {"no", "yes"}}),
    key("tpu_name", &C::tpu_name, "Name of the TPU."),
    key("tpu_zone", &C::tpu_zone, "Zone of the TPU."),
    key("tpu_use_cluster", &C::tpu_use_cluster, "Whether it is a TPU pod."),
    key("tpu_use_sudo", &C::tpu_use_sudo, "Whether commands on the pod run under sudo."),
    key("command_file", &C::command_file, "File of commands to run on the pod first."),
    key("commands", &C::commands, "Commands to run on the pod first."),
    key("tpu_vm", &C::tpu_vm, "Names of the pod's machines."),
    key("tpu_env", &C::tpu_env, "Environment variables to set on the pod."),
  }};
  return kTable;
}

const KeyTable<FsdpConfig>& fsdp_table() {
  using C = FsdpConfig;
  static const KeyTable<C> kTable{"fsdp_config", "fsdp_", {
    key("fsdp_version", &C::version, "Names and defaults of PyTorch's FSDP 1 or 2; 1 when absent.", {.min = 1, .max = 2}),
    key("fsdp_sharding_strategy", &C::sharding_strategy, "What is sharded (version 1).",
        {.synonyms = {{"1", "FULL_SHARD"}, {"2", "SHARD_GRAD_OP"}, {"3", "NO_SHARD"}, {"4", "HYBRID_SHARD"}, {"5", "HYBRID_SHARD_ZERO2"}}}),
    key("fsdp_reshard_after_forward", &C::reshard_after_forward, "Free gathered parameters after forward; version 1 files hold the sharding strategy here.", {.choices = enum_names<ShardingStrategy>()}),
    key("fsdp_offload_params", &C::offload_params, "Keep parameters and gradients on the CPU."),
    key("fsdp_auto_wrap_policy", &C::auto_wrap_policy, "How the model is cut into units."),
    key("fsdp_transformer_layer_cls_to_wrap", &C::transformer_layer_cls_to_wrap, "Comma list of module classes that become units."),
    key("fsdp_min_num_params", &C::min_num_params, "Smallest unit of SIZE_BASED_WRAP, in parameters.", {.min = 0}),
    key("fsdp_backward_prefetch", &C::backward_prefetch, "When the next unit of a backward is gathered.",
        {.aliases = {"fsdp_backward_prefetch_policy"}, .synonyms = {{"1", "BACKWARD_PRE"}, {"2", "BACKWARD_POST"}}}),
    key("fsdp_state_dict_type", &C::state_dict_type, "Form in which state is saved.",
        {.synonyms = {{"1", "FULL_STATE_DICT"}, {"2", "LOCAL_STATE_DICT"}, {"3", "SHARDED_STATE_DICT"}}}),
    key("fsdp_forward_prefetch", &C::forward_prefetch, "Gather the next unit during a forward (version 1)."),
    key("fsdp_use_orig_params", &C::use_orig_params, "Keep the user's parameters visible (version 1)."),
    key("fsdp_cpu_ram_efficient_loading", &C::cpu_ram_efficient_loading, "Only rank 0 reads the weights."),
    key("fsdp_sync_module_states", &C::sync_module_states, "Rank 0's parameters go to all ranks at the start."),
    key("fsdp_activation_checkpointing", &C::activation_checkpointing, "Recompute activations in backward."),
    key("fsdp_activation_checkpointing_offload", &C::activation_checkpointing_offload, "Keep the inputs of recomputed units on the CPU."),
    key("fsdp_ignored_modules", &C::ignored_modules, "Regular expression of module names that stay whole."),
  }};
  return kTable;
}

const KeyTable<DeepSpeedConfig>& deepspeed_table() {
  using C = DeepSpeedConfig;
  const KeyRules devices{.choices = {"none", "cpu", "nvme"}};
  static const KeyTable<C> kTable{"deepspeed_config", "", {
    key("deepspeed_config_file", &C::deepspeed_config_file, "DeepSpeed's own JSON file."),
    key("zero_stage", &C::zero_stage, "ZeRO stage.", {.min = 0, .max = 3}),
    key("offload_optimizer_device", &C::offload_optimizer_device, "Where optimizer state lives.", devices),
    key("offload_param_device", &C::offload_param_device, "Where parameters live.", devices),
    key("offload_optimizer_nvme_path", &C::offload_optimizer_nvme_path, "Folder for optimizer state on disk."),
    key("offload_param_nvme_path", &C::offload_param_nvme_path, "Folder for parameters on disk."),
    key("gradient_accumulation_steps", &C::gradient_accumulation_steps, "Micro-batches of a step.", kAtLeastOne),
    key("gradient_clipping", &C::gradient_clipping, "Largest global norm of a gradient.", {.min = 0}),
    key("zero3_init_flag", &C::zero3_init_flag, "Shard parameters while the model is built."),
    key("zero3_save_16bit_model", &C::zero3_save_16bit_model, "Gather 16-bit weights when saving."),
    key("deepspeed_hostfile", &C::deepspeed_hostfile, "Hosts and their slots."),
    key("deepspeed_exclusion_filter", &C::deepspeed_exclusion_filter, "Hosts or slots left out."),
    key("deepspeed_inclusion_filter", &C::deepspeed_inclusion_filter, "Hosts or slots taken."),
    key("deepspeed_multinode_launcher", &C::deepspeed_multinode_launcher, "What starts the other machines.",
        {.choices = {"pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm"}}),
    key("deepspeed_moe_layer_cls_names", &C::deepspeed_moe_layer_cls_names, "Comma list of mixture-of-experts classes."),
  }};
  return kTable;
}

const KeyTable<MegatronLMConfig>& megatron_lm_table() {
  using C = MegatronLMConfig;
  static const KeyTable<C> kTable{"megatron_lm_config", "megatron_lm_", {
    key("megatron_lm_tp_degree", &C::tp_degree, "Tensor-parallel ranks.", kAtLeastOne),
    key("megatron_lm_pp_degree", &C::pp_degree, "Pipeline stages.", kAtLeastOne),
    key("megatron_lm_num_micro_batches", &C::num_micro_batches, "Micro-batches in the pipeline.", kAtLeastOne),
    key("megatron_lm_sequence_parallelism", &C::sequence_parallelism, "Shard activations along the sequence."),
    key("megatron_lm_recompute_activations", &C::recompute_activations, "Recompute activations in backward."),
    key("megatron_lm_use_distributed_optimizer", &C::use_distributed_optimizer, "Shard optimizer state over data-parallel ranks."),
    key("megatron_lm_gradient_clipping", &C::gradient_clipping, "Largest global norm of a gradient; 0 for none.", {.min = 0}),
    key("megatron_lm_use_custom_fsdp", &C::use_custom_fsdp, "Megatron's own FSDP."),
    key("megatron_lm_no_load_optim", &C::no_load_optim, "Do not load optimizer state."),
    key("megatron_lm_no_save_optim", &C::no_save_optim, "Do not save optimizer state."),
    key("megatron_lm_eod_mask_loss", &C::eod_mask_loss, "Mask the loss of end-of-document tokens."),
    key("megatron_lm_optimizer_cpu_offload", &C::optimizer_cpu_offload, "Optimizer state on the CPU."),
    key("megatron_lm_overlap_cpu_optimizer_d2h_h2d", &C::overlap_cpu_optimizer_d2h_h2d, "Overlap its copies with compute."),
    key("megatron_lm_use_precision_aware_optimizer", &C::use_precision_aware_optimizer, "Optimizer state in lower precision."),
    key("megatron_lm_decoder_last_pipeline_num_layers", &C::decoder_last_pipeline_num_layers, "Layers of the last stage; an even split when absent.", {.min = 0}),
    key("megatron_lm_recompute_granularity", &C::recompute_granularity, "What is recomputed.", {.choices = {"full", "selective"}}),
    key("megatron_lm_recompute_method", &C::recompute_method, "How recomputed layers are chosen.", {.choices = {"uniform", "block"}}),
    key("megatron_lm_recompute_num_layers", &C::recompute_num_layers, "How many layers are recomputed.", {.min = 0}),
    key("megatron_lm_attention_backend", &C::attention_backend, "Attention implementation."),
    key("megatron_lm_expert_model_parallel_size", &C::expert_model_parallel_size, "Expert-parallel ranks.", kAtLeastOne),
    key("megatron_lm_context_parallel_size", &C::context_parallel_size, "Context-parallel ranks.", kAtLeastOne),
    key("megatron_lm_attention_dropout", &C::attention_dropout, "Dropout of attention.", {.min = 0}),
    key("megatron_lm_hidden_dropout", &C::hidden_dropout, "Dropout of hidden states.", {.min = 0}),
    key("megatron_lm_attention_softmax_in_fp32", &C::attention_softmax_in_fp32, "Softmax of attention in fp32."),
    key("megatron_lm_expert_tensor_parallel_size", &C::expert_tensor_parallel_size, "Tensor-parallel ranks of experts.", kAtLeastOne),
    key("megatron_lm_calculate_per_token_loss", &C::calculate_per_token_loss, "Average the loss over tokens."),
    key("megatron_lm_use_rotary_position_embeddings", &C::use_rotary_position_embeddings, "Rotary position embeddings."),
  }};
  return kTable;
}

const KeyTable<ParallelismConfig>& parallelism_table() {
  using C = ParallelismConfig;
  static const KeyTable<C> kTable{"parallelism_config", "parallelism_config_", {
    key("parallelism_config_dp_replicate_size", &C::dp_replicate_size, "Replicas of the model.", kAtLeastOne),
    key("parallelism_config_dp_shard_size", &C::dp_shard_size, "Ranks that share one replica by FSDP.", kAtLeastOne),
    key("parallelism_config_tp_size", &C::tp_size, "Tensor-parallel ranks.", kAtLeastOne),
    key("parallelism_config_cp_size", &C::cp_size, "Context-parallel ranks.", kAtLeastOne),
    key("parallelism_config_cp_backend", &C::cp_backend, "Context-parallel implementation.", {.choices = {"torch"}}),
    key("parallelism_config_cp_comm_strategy", &C::cp_comm_strategy, "How keys and values travel.", {.choices = {"allgather", "alltoall"}}),
    key("parallelism_config_sp_size", &C::sp_size, "Sequence-parallel ranks.", kAtLeastOne),
    key("parallelism_config_sp_backend", &C::sp_backend, "Sequence-parallel implementation.", {.choices = {"deepspeed"}}),
    key("parallelism_config_sp_seq_length", &C::sp_seq_length, "Length of all sequences.", kAtLeastOne),
    key("parallelism_config_sp_seq_length_is_variable", &C::sp_seq_length_is_variable, "Whether lengths differ between batches."),
    key("parallelism_config_sp_attn_implementation", &C::sp_attn_implementation, "Attention implementation."),
  }};
  return kTable;
}

const KeyTable<Fp8Config>& fp8_table() {
  using C = Fp8Config;
  static const KeyTable<C> kTable{"fp8_config", "fp8_", {
    key("fp8_backend", &C::backend, "Library that computes in fp8.", {.choices = {"AO", "TE", "MSAMP"}}),
    key("fp8_use_autocast_during_eval", &C::use_autocast_during_eval, "fp8 during evaluation too."),
    key("fp8_margin", &C::margin, "Margin of the scaling factor.", {.min = 0}),
    key("fp8_interval", &C::interval, "Steps between two scaling factors.", kAtLeastOne),
    key("fp8_format", &C::format, "Format of the numbers.", {.choices = {"HYBRID", "E4M3", "E5M2"}}),
    key("fp8_amax_history_len", &C::amax_history_len, "Steps whose maxima are kept.", {.aliases = {"fp8_amax_history_length"}, .min = 1}),
    key("fp8_amax_compute_algo", &C::amax_compute_algo, "Which of them counts.", {.aliases = {"fp8_amax_compute_algorithm"}, .choices = {"max", "most_recent"}}),
    key("fp8_override_linear_precision", &C::override_linear_precision, "Higher precision in forward, input gradient, weight gradient."),
    key("fp8_use_mxfp8_block_scaling", &C::use_mxfp8_block_scaling, "Scale by blocks."),
    key("fp8_opt_level", &C::opt_level, "MS-AMP level.", {.aliases = {"fp8_optimization_level"}, .choices = {"O1", "O2"}}),
    key("fp8_enable_fsdp_float8_all_gather", &C::enable_fsdp_float8_all_gather, "All-gather in fp8 under FSDP."),
    key("fp8_pad_inner_dim", &C::pad_inner_dim, "Pad inner dimensions to a multiple of 16."),
  }};
  return kTable;
}

const KeyTable<DynamoConfig>& dynamo_table() {
  using C = DynamoConfig;
  static const KeyTable<C> kTable{"dynamo_config", "dynamo_", {
    key("dynamo_backend", &C::backend, "Back end of torch.compile.",
        {.choices = {"NO", "EAGER", "AOT_EAGER", "INDUCTOR", "AOT_TS_NVFUSER", "NVPRIMS_NVFUSER", "CUDAGRAPHS", "OFI", "FX2TRT",
                     "ONNXRT", "TENSORRT", "AOT_TORCHXLA_TRACE_ONCE", "TORCHXLA_TRACE_ONCE", "TVM", "HPU_BACKEND", "NEURON"}}),
    key("dynamo_mode", &C::mode, "Mode of torch.compile.", {.choices = {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}}),
    key("dynamo_use_fullgraph", &C::use_fullgraph, "One graph or an error."),
    key("dynamo_use_dynamic", &C::use_dynamic, "Trace dynamic shapes."),
    key("dynamo_use_regional_compilation", &C::use_regional_compilation, "Compile repeated blocks once."),
  }};
  return kTable;
}

const KeyTable<MpirunConfig>& mpirun_table() {
  using C = MpirunConfig;
  static const KeyTable<C> kTable{"mpirun_config", "", {
    key("mpirun_hostfile", &C::mpirun_hostfile, "Hosts for mpirun."),
    key("mpirun_ccl", &C::mpirun_ccl, "Workers of oneCCL, a key of older versions."),
  }};
  return kTable;
}
// clang-format on

Node modern_word(const Node& node, const KeyRules& rules) {
  for (const auto& [old_word, word] : rules.synonyms) {
    if (node.is_scalar() && lower(node.text) == lower(old_word)) return Node::string(word);
  }
  return node;
}

}  // namespace accelerate::detail
