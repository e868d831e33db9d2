// The keys of a configuration file, and the flags of `accelerate launch` that set keys of sections.
// docs/config_keys.md says what each key does here and which test covers it; a test compares it
// with these tables. Source of names, types and choices: the launch parser, the questionnaire and
// the data classes of Hugging Face Accelerate 1.15.
#include "accelerate/launch/config/key_table.h"

namespace accelerate::detail {
namespace {

using enum FlagKind;
using enum FlagStatus;

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
const std::vector<std::string> kDevices = {"none", "cpu", "nvme"};

}  // namespace

// clang-format off
const KeyTable<ClusterConfig>& cluster_table() {
  using C = ClusterConfig;
  static const KeyTable<C> kTable{"", "", {
    key("compute_environment", &C::compute_environment, "Where the run happens: LOCAL_MACHINE."),
    key("distributed_type", &C::distributed_type, "How the processes work together.", {.synonyms = {{"TPU", "XLA"}, {"false", "NO"}}}),
    key("mixed_precision", &C::mixed_precision, "Type that the forward pass computes in.", {.synonyms = {{"false", "no"}}, .flag = KeyFlag{choice, "", "ACCELERATE_MIXED_PRECISION", works, {}, FlagGroup::resources}}),
    key("use_cpu", &C::use_cpu, "Run on the CPU even where a GPU is present."),
    key("debug", &C::debug, "Say where ranks run; have them refuse tensors of another device than theirs in collectives.", {.flag = KeyFlag{toggle, "False", "ACCELERATE_DEBUG_MODE", works, {}, FlagGroup::general}}),
    key("num_processes", &C::num_processes, "Number of ranks to start: by default one a GPU, or one; -1 in a file leaves it to the command line.", {.min = -1, .not_zero = true, .flag = KeyFlag{integer, "", "", works, {}, FlagGroup::resources}}),
    key("machine_rank", &C::machine_rank, "Number of this machine, from 0 to num_machines - 1.", {.min = 0, .flag = KeyFlag{integer, "", "", works, {}, FlagGroup::rendezvous}}),
    key("num_machines", &C::num_machines, "Number of machines.", {.min = 1, .flag = KeyFlag{range, "", "", works, {}, FlagGroup::resources}}),
    key("gpu_ids", &C::gpu_ids, "GPUs to use on this machine, as 0,2,3 or all.", {.joined_by = ",", .flag = KeyFlag{text, "", "CUDA_VISIBLE_DEVICES", works, {}, FlagGroup::resources}}),
    key("main_process_ip", &C::main_process_ip, "Address of machine 0, by which the others reach it; on one machine the default is 127.0.0.1.", {.flag = KeyFlag{text, "", "", works, {}, FlagGroup::rendezvous}}),
    key("main_process_port", &C::main_process_port, "Port at that address; the default is 29500, and on one machine a free one, as 0 is.", {.min = 0, .max = 65535, .flag = KeyFlag{integer, "", "", works, {}, FlagGroup::rendezvous}}),
    key("rdzv_backend", &C::rdzv_backend, "How machines find each other: static, or c10d if they come and go.", {.flag = KeyFlag{text, "static", "", works, {}, FlagGroup::rendezvous}}),
    key("same_network", &C::same_network, "All machines are on one local network.", {.flag = KeyFlag{toggle, "False", "", no_effect, {}, FlagGroup::rendezvous}}),
    key("main_training_function", &C::main_training_function, "Function that TPU processes run.", {.flag = KeyFlag{text, "", "", no_effect, {}, FlagGroup::tpu}}),
    key("enable_cpu_affinity", &C::enable_cpu_affinity, "Bind each rank to cores of its own, as several ranks on the CPU are by default; on GPUs to the cores near its GPU.", {.flag = KeyFlag{toggle, "False", "ACCELERATE_CPU_AFFINITY", works, {}, FlagGroup::resources}}),
    key("downcast_bf16", &C::downcast_bf16, "Store fp32 as bf16 on TPUs.", {.choices = {"no", "yes"}, .flag = KeyFlag{toggle, "False", "", not_applicable, {}, FlagGroup::tpu}}),
    key("tpu_name", &C::tpu_name, "Name of the TPU."),
    key("tpu_zone", &C::tpu_zone, "Zone of the TPU."),
    key("tpu_use_cluster", &C::tpu_use_cluster, "Whether it is a TPU pod."),
    key("tpu_use_sudo", &C::tpu_use_sudo, "Use sudo on the pod.", {.flag = KeyFlag{toggle, "False", "", not_applicable, {}, FlagGroup::tpu}}),
    key("command_file", &C::command_file, "File of commands to run on the pod first."),
    key("commands", &C::commands, "Commands to run on the pod first."),
    key("tpu_vm", &C::tpu_vm, "Names of the pod's machines."),
    key("tpu_env", &C::tpu_env, "Environment variables to set on the pod."),
  }};
  return kTable;
}

const KeyTable<FullyShardedDataParallelPlugin>& fsdp_table() {
  using C = FullyShardedDataParallelPlugin;
  static const KeyTable<C> kTable{"fsdp_config", "fsdp_", {
    key("fsdp_version", &C::fsdp_version, "Version of FSDP to follow.", {.min = 1, .max = 2, .flag = KeyFlag{.kind = choice, .fallback = "1", .choices = {"1", "2"}}}),
    key("fsdp_sharding_strategy", &C::sharding_strategy, "Version 1: what is sharded.", {.synonyms = {{"1", "FULL_SHARD"}, {"2", "SHARD_GRAD_OP"}, {"3", "NO_SHARD"}, {"4", "HYBRID_SHARD"}, {"5", "HYBRID_SHARD_ZERO2"}}, .flag = KeyFlag{text, "FULL_SHARD"}}),
    key("fsdp_reshard_after_forward", &C::reshard_after_forward, "Version 2: free gathered parameters after the forward pass, true or false. Version 1: another name of --fsdp_sharding_strategy.", {.flag = KeyFlag{word, "true"}}),
    key("fsdp_offload_params", &C::cpu_offload, "Keep parameters and gradients in CPU memory.", {.flag = KeyFlag{truth, "false"}}),
    key("fsdp_auto_wrap_policy", &C::auto_wrap_policy, "How layers are grouped into units.", {.flag = KeyFlag{text}}),
    key("fsdp_transformer_layer_cls_to_wrap", &C::transformer_cls_names_to_wrap, "Classes that are a unit each, separated by commas.", {.joined_by = ",", .flag = KeyFlag{text, "", "FSDP_TRANSFORMER_CLS_TO_WRAP"}}),
    key("fsdp_min_num_params", &C::min_num_params, "Smallest unit of SIZE_BASED_WRAP, in parameters.", {.min = 0, .flag = KeyFlag{integer, "100000000"}}),
    key("fsdp_backward_prefetch", &C::backward_prefetch, "When the next unit is gathered in the backward pass.", {.aliases = {"fsdp_backward_prefetch_policy"}, .synonyms = {{"1", "BACKWARD_PRE"}, {"2", "BACKWARD_POST"}}, .flag = KeyFlag{text}}),
    key("fsdp_state_dict_type", &C::state_dict_type, "Form of saved state.", {.synonyms = {{"1", "FULL_STATE_DICT"}, {"2", "LOCAL_STATE_DICT"}, {"3", "SHARDED_STATE_DICT"}}, .flag = KeyFlag{text}}),
    key("fsdp_forward_prefetch", &C::forward_prefetch, "Gather the next unit during the forward pass.", {.flag = KeyFlag{truth, "false"}}),
    key("fsdp_use_orig_params", &C::use_orig_params, "Allow frozen and trained parameters in one unit.", {.flag = KeyFlag{truth, "true"}}),
    key("fsdp_cpu_ram_efficient_loading", &C::cpu_ram_efficient_loading, "Only rank 0 reads the weights; needs --fsdp_sync_module_states.", {.flag = KeyFlag{truth, "true"}}),
    key("fsdp_sync_module_states", &C::sync_module_states, "Send rank 0's parameters to all ranks at the start.", {.flag = KeyFlag{truth, "true"}}),
    key("fsdp_activation_checkpointing", &C::activation_checkpointing, "Compute activations again in the backward pass instead of keeping them.", {.flag = KeyFlag{truth, "false"}}),
    key("fsdp_activation_checkpointing_offload", &C::activation_checkpointing_offload, "Keep the inputs of checkpointed layers in CPU memory (version 2).", {.flag = KeyFlag{truth, "false"}}),
    key("fsdp_ignored_modules", &C::ignored_modules, "Regular expression of module names that stay whole.", {.joined_by = "|"}),
  }, FlagGroup::fsdp};
  return kTable;
}

const KeyTable<DeepSpeedConfig>& deepspeed_table() {
  using C = DeepSpeedConfig;
  static const KeyTable<C> kTable{"deepspeed_config", "", {
    key("deepspeed_config_file", &C::deepspeed_config_file, "DeepSpeed's own JSON file, or base64 of it.", {.flag = KeyFlag{text, "", "ACCELERATE_DEEPSPEED_CONFIG_FILE"}}),
    key("zero_stage", &C::zero_stage, "Stage of ZeRO, 0 to 3.", {.min = 0, .max = 3, .flag = KeyFlag{integer, "", "ACCELERATE_DEEPSPEED_ZERO_STAGE"}}),
    key("offload_optimizer_device", &C::offload_optimizer_device, "Where optimizer state and gradients live.", {.choices = kDevices, .flag = KeyFlag{word, "", "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"}}),
    key("offload_param_device", &C::offload_param_device, "Where parameters live (stage 3).", {.choices = kDevices, .flag = KeyFlag{word, "", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"}}),
    key("offload_optimizer_nvme_path", &C::offload_optimizer_nvme_path, "Folder for optimizer state on a local disk, for nvme.", {.flag = KeyFlag{text, "", "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH"}}),
    key("offload_param_nvme_path", &C::offload_param_nvme_path, "Folder for parameters on a local disk, for nvme.", {.flag = KeyFlag{text, "", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH"}}),
    key("gradient_accumulation_steps", &C::gradient_accumulation_steps, "Micro-batches per step.", {.min = 1, .may_be_auto = true, .flag = KeyFlag{integer, "", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"}}),
    key("gradient_clipping", &C::gradient_clipping, "Largest norm of the gradients; 0 for none.", {.min = 0, .may_be_auto = true, .flag = KeyFlag{number, "", "ACCELERATE_GRADIENT_CLIPPING"}}),
    key("zero3_init_flag", &C::zero3_init_flag, "Stage 3: shard parameters while the model of a Python program is built; native ones use init_empty_weights().", {.flag = KeyFlag{truth, "", "ACCELERATE_DEEPSPEED_ZERO3_INIT"}}),
    key("zero3_save_16bit_model", &C::zero3_save_16bit_model, "Stage 3: save the weights of a Python program in 16 bits; native ones save what the optimizer has.", {.flag = KeyFlag{truth, "", "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL"}}),
    key("deepspeed_hostfile", &C::deepspeed_hostfile, "File of the machines on which ssh starts launchers, as node1 slots=4.", {.flag = KeyFlag{text, "", "", works}}),
    key("deepspeed_exclusion_filter", &C::deepspeed_exclusion_filter, "Machines to leave out, as node1@node2:0,2.", {.flag = KeyFlag{text, "", "", works}}),
    key("deepspeed_inclusion_filter", &C::deepspeed_inclusion_filter, "Machines to use, as node1@node2:0,2.", {.flag = KeyFlag{text, "", "", works}}),
    key("deepspeed_multinode_launcher", &C::deepspeed_multinode_launcher, "What starts launchers on the hosts: pdsh, which means ssh here, or you, with standard and nossh.", {.choices = {"pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm"}, .flag = KeyFlag{text, "", "", works}}),
    key("deepspeed_moe_layer_cls_names", &C::deepspeed_moe_layer_cls_names, "Mixture-of-experts classes, separated by commas, each module of which is one unit.", {.joined_by = ",", .flag = KeyFlag{text, "", "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES"}}),
  }, FlagGroup::deepspeed};
  return kTable;
}

const KeyTable<MegatronLMConfig>& megatron_lm_table() {
  using C = MegatronLMConfig;
  static const KeyTable<C> kTable{"megatron_lm_config", "megatron_lm_", {
    key("megatron_lm_tp_degree", &C::tp_degree, "Ranks that share each layer.", {.min = 1, .flag = KeyFlag{integer, "1"}}),
    key("megatron_lm_pp_degree", &C::pp_degree, "Stages of the pipeline.", {.min = 1, .flag = KeyFlag{integer, "1"}}),
    key("megatron_lm_num_micro_batches", &C::num_micro_batches, "Micro-batches in the pipeline.", {.min = 1, .flag = KeyFlag{integer}}),
    key("megatron_lm_sequence_parallelism", &C::sequence_parallelism, "Split the sequence where layers are not split.", {.flag = KeyFlag{text}}),
    key("megatron_lm_recompute_activations", &C::recompute_activations, "Compute activations again in the backward pass.", {.flag = KeyFlag{text}}),
    key("megatron_lm_use_distributed_optimizer", &C::use_distributed_optimizer, "Shard optimizer state over data-parallel ranks.", {.flag = KeyFlag{text}}),
    key("megatron_lm_gradient_clipping", &C::gradient_clipping, "Largest norm of the gradients; 0 for none.", {.min = 0, .flag = KeyFlag{number, "1.0"}}),
    key("megatron_lm_use_custom_fsdp", &C::use_custom_fsdp, "Use Megatron's own FSDP.", {.flag = KeyFlag{boolean, "False"}}),
    key("megatron_lm_no_load_optim", &C::no_load_optim, "Do not load optimizer state.", {.flag = KeyFlag{boolean, "False"}}),
    key("megatron_lm_no_save_optim", &C::no_save_optim, "Do not save optimizer state.", {.flag = KeyFlag{boolean, "False"}}),
    key("megatron_lm_eod_mask_loss", &C::eod_mask_loss, "Leave end-of-document tokens out of the loss.", {.flag = KeyFlag{boolean, "False"}}),
    key("megatron_lm_optimizer_cpu_offload", &C::optimizer_cpu_offload, "Run the optimizer on the CPU.", {.flag = KeyFlag{boolean, "False"}}),
    key("megatron_lm_overlap_cpu_optimizer_d2h_h2d", &C::overlap_cpu_optimizer_d2h_h2d, "Overlap that optimizer with its copies.", {.flag = KeyFlag{boolean, "False"}}),
    key("megatron_lm_use_precision_aware_optimizer", &C::use_precision_aware_optimizer, "Keep optimizer state in lower precision.", {.flag = KeyFlag{boolean, "False"}}),
    key("megatron_lm_decoder_last_pipeline_num_layers", &C::decoder_last_pipeline_num_layers, "Layers in the last stage.", {.min = 0, .flag = KeyFlag{integer}}),
    key("megatron_lm_recompute_granularity", &C::recompute_granularity, "What is computed again: full or selective.", {.choices = {"full", "selective"}, .flag = KeyFlag{text}}),
    key("megatron_lm_recompute_method", &C::recompute_method, "How layers to compute again are chosen: uniform or block.", {.choices = {"uniform", "block"}, .flag = KeyFlag{text}}),
    key("megatron_lm_recompute_num_layers", &C::recompute_num_layers, "How many layers are computed again.", {.min = 0, .flag = KeyFlag{integer}}),
    key("megatron_lm_attention_backend", &C::attention_backend, "Attention kernel.", {.flag = KeyFlag{text}}),
    key("megatron_lm_expert_model_parallel_size", &C::expert_model_parallel_size, "Ranks that share the experts.", {.min = 1, .flag = KeyFlag{integer}}),
    key("megatron_lm_context_parallel_size", &C::context_parallel_size, "Ranks that share a sequence.", {.min = 1, .flag = KeyFlag{integer}}),
    key("megatron_lm_attention_dropout", &C::attention_dropout, "Dropout of attention weights.", {.min = 0, .flag = KeyFlag{number}}),
    key("megatron_lm_hidden_dropout", &C::hidden_dropout, "Dropout of hidden states.", {.min = 0, .flag = KeyFlag{number}}),
    key("megatron_lm_attention_softmax_in_fp32", &C::attention_softmax_in_fp32, "Compute the softmax of attention in fp32.", {.flag = KeyFlag{text}}),
    key("megatron_lm_expert_tensor_parallel_size", &C::expert_tensor_parallel_size, "Ranks that share each expert.", {.min = 1, .flag = KeyFlag{integer}}),
    key("megatron_lm_calculate_per_token_loss", &C::calculate_per_token_loss, "Average the loss over tokens.", {.flag = KeyFlag{text}}),
    key("megatron_lm_use_rotary_position_embeddings", &C::use_rotary_position_embeddings, "Use rotary positions.", {.flag = KeyFlag{text}}),
  }, FlagGroup::megatron};
  return kTable;
}

const KeyTable<ParallelismConfig>& parallelism_table() {
  using C = ParallelismConfig;
  static const KeyTable<C> kTable{"parallelism_config", "parallelism_config_", {
    key("parallelism_config_dp_replicate_size", &C::dp_replicate_size, "Replicas of the whole model.", {.min = 1, .flag = KeyFlag{integer, "1"}}),
    key("parallelism_config_dp_shard_size", &C::dp_shard_size, "Ranks that share a model's shards.", {.min = 1, .flag = KeyFlag{integer, "1"}}),
    key("parallelism_config_tp_size", &C::tp_size, "Ranks that share each layer.", {.min = 1, .flag = KeyFlag{integer, "1"}}),
    key("parallelism_config_cp_size", &C::cp_size, "Ranks that share a sequence.", {.min = 1, .flag = KeyFlag{integer, "1"}}),
    key("parallelism_config_cp_backend", &C::cp_backend, "How sequences are shared.", {.choices = {"torch"}, .flag = KeyFlag{choice, "torch"}}),
    key("parallelism_config_cp_comm_strategy", &C::cp_comm_strategy, "How keys and values travel: allgather or alltoall.", {.choices = {"allgather", "alltoall"}, .flag = KeyFlag{text, "allgather"}}),
    key("parallelism_config_sp_size", &C::sp_size, "Ranks that share a sequence head by head.", {.min = 1, .flag = KeyFlag{integer, "1"}}),
    key("parallelism_config_sp_backend", &C::sp_backend, "How that is done.", {.choices = {"deepspeed"}, .flag = KeyFlag{choice, "deepspeed"}}),
    key("parallelism_config_sp_seq_length", &C::sp_seq_length, "Length of all sequences, where it is fixed.", {.min = 1, .flag = KeyFlag{text}}),
    key("parallelism_config_sp_seq_length_is_variable", &C::sp_seq_length_is_variable, "Lengths change between batches.", {.flag = KeyFlag{boolean, "True"}}),
    key("parallelism_config_sp_attn_implementation", &C::sp_attn_implementation, "Attention kernel.", {.flag = KeyFlag{text, "sdpa"}}),
  }, FlagGroup::parallelism};
  return kTable;
}

const KeyTable<Fp8Config>& fp8_table() {
  using C = Fp8Config;
  static const KeyTable<C> kTable{"fp8_config", "fp8_", {
    key("fp8_backend", &C::backend, "Library that computes in FP8.", {.choices = {"AO", "TE", "MSAMP"}, .flag = KeyFlag{.kind = choice, .choices = {"ao", "te", "msamp"}}}),
    key("fp8_use_autocast_during_eval", &C::use_autocast_during_eval, "te: also in evaluation.", {.flag = KeyFlag{toggle, "False"}}),
    key("fp8_margin", &C::margin, "te: margin of the scaling factor.", {.min = 0, .flag = KeyFlag{integer, "0"}}),
    key("fp8_interval", &C::interval, "te: steps between new scaling factors.", {.min = 1, .flag = KeyFlag{integer, "1"}}),
    key("fp8_format", &C::format, "te: layout of the eight bits.", {.choices = {"HYBRID", "E4M3", "E5M2"}, .flag = KeyFlag{choice, "HYBRID"}}),
    key("fp8_amax_history_len", &C::amax_history_len, "te: steps of history behind a scaling factor.", {.aliases = {"fp8_amax_history_length"}, .min = 1, .flag = KeyFlag{integer, "1024"}}),
    key("fp8_amax_compute_algo", &C::amax_compute_algo, "te: how that history becomes a factor.", {.aliases = {"fp8_amax_compute_algorithm"}, .choices = {"max", "most_recent"}, .flag = KeyFlag{choice, "most_recent"}}),
    key("fp8_override_linear_precision", &C::override_linear_precision, "te: three booleans: compute fprop, dgrad, wgrad in higher precision.", {.flag = KeyFlag{bits, "False,False,False"}}),
    key("fp8_use_mxfp8_block_scaling", &C::use_mxfp8_block_scaling, "Scale by blocks."),
    key("fp8_opt_level", &C::opt_level, "msamp: how much is communicated in eight bits.", {.aliases = {"fp8_optimization_level"}, .choices = {"O1", "O2"}, .flag = KeyFlag{choice, "O2"}}),
    key("fp8_enable_fsdp_float8_all_gather", &C::enable_fsdp_float8_all_gather, "ao: gather shards in eight bits.", {.flag = KeyFlag{bit, "true"}}),
    key("fp8_pad_inner_dim", &C::pad_inner_dim, "ao: pad the inner dimension.", {.flag = KeyFlag{bit, "true"}}),
  }, FlagGroup::fp8};
  return kTable;
}

const KeyTable<DynamoConfig>& dynamo_table() {
  using C = DynamoConfig;
  static const KeyTable<C> kTable{"dynamo_config", "dynamo_", {
    key("dynamo_backend", &C::backend, "Compiler of a Python program that uses torch.compile.",
        {.choices = {"NO", "EAGER", "AOT_EAGER", "INDUCTOR", "AOT_TS_NVFUSER", "NVPRIMS_NVFUSER", "CUDAGRAPHS", "OFI", "FX2TRT",
                     "ONNXRT", "TENSORRT", "AOT_TORCHXLA_TRACE_ONCE", "TORCHXLA_TRACE_ONCE", "TVM", "HPU_BACKEND", "NEURON"},
         .synonyms = {{"TORHCHXLA_TRACE_ONCE", "TORCHXLA_TRACE_ONCE"}},  // Upstream's questions spell it so.
         .flag = KeyFlag{.kind = choice, .variable = "ACCELERATE_DYNAMO_BACKEND", .choices = kDynamoBackends}}),
    key("dynamo_mode", &C::mode, "Mode of that compiler.", {.choices = {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"},
         .flag = KeyFlag{.kind = choice, .fallback = "default", .variable = "ACCELERATE_DYNAMO_MODE", .choices = kDynamoModes}}),
    key("dynamo_use_fullgraph", &C::use_fullgraph, "Compile one graph without breaks.", {.flag = KeyFlag{toggle, "False", "ACCELERATE_DYNAMO_USE_FULLGRAPH"}}),
    key("dynamo_use_dynamic", &C::use_dynamic, "Compile for changing shapes.", {.flag = KeyFlag{toggle, "False", "ACCELERATE_DYNAMO_USE_DYNAMIC"}}),
    key("dynamo_use_regional_compilation", &C::use_regional_compilation, "Compile repeated blocks once.", {.flag = KeyFlag{toggle, "False", "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"}}),
  }, FlagGroup::resources};
  return kTable;
}

const KeyTable<MpirunConfig>& mpirun_table() {
  using C = MpirunConfig;
  static const KeyTable<C> kTable{"mpirun_config", "", {
    key("mpirun_hostfile", &C::mpirun_hostfile, "File of the hosts on which mpirun starts the ranks.", {.flag = KeyFlag{text, "", "", works}}),
    key("mpirun_ccl", &C::mpirun_ccl, "Workers of oneCCL, a key of older versions."),
  }, FlagGroup::mpi};
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
