// The sections of a configuration file, and the whole of one, as pure data. The keys are the ones
// of Hugging Face Accelerate's `default_config.yaml`; docs/config_keys.md explains every key.
//
// A field is std::optional where "not said" differs from any value; the launcher and the plugins
// then decide.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/fsdp_options.h"
#include "accelerate/launch/config/word.h"

namespace accelerate {

/// Section `deepspeed_config`.
struct DeepSpeedConfig {
  std::optional<std::string> deepspeed_config_file{};
  std::optional<int> zero_stage{};                        ///< 0 to 3.
  std::optional<std::string> offload_optimizer_device{};  ///< none, cpu or nvme.
  std::optional<std::string> offload_param_device{};      ///< none, cpu or nvme.
  std::optional<std::string> offload_optimizer_nvme_path{};
  std::optional<std::string> offload_param_nvme_path{};
  std::optional<int> gradient_accumulation_steps{};
  std::optional<double> gradient_clipping{};
  std::optional<bool> zero3_init_flag{};
  std::optional<bool> zero3_save_16bit_model{};
  std::optional<std::string> deepspeed_hostfile{};
  std::optional<std::string> deepspeed_exclusion_filter{};
  std::optional<std::string> deepspeed_inclusion_filter{};
  std::optional<std::string> deepspeed_multinode_launcher{};
  std::optional<std::string> deepspeed_moe_layer_cls_names{};  ///< Comma list of class names.
  KeySpellings spellings{};
  bool operator==(const DeepSpeedConfig&) const = default;
};

/// Section `megatron_lm_config`; the keys carry the prefix `megatron_lm_`.
struct MegatronLMConfig {
  std::optional<int> tp_degree{};
  std::optional<int> pp_degree{};
  std::optional<int> num_micro_batches{};
  std::optional<bool> sequence_parallelism{};
  std::optional<bool> recompute_activations{};
  std::optional<bool> use_distributed_optimizer{};
  std::optional<double> gradient_clipping{};
  std::optional<bool> use_custom_fsdp{};
  std::optional<bool> no_load_optim{};
  std::optional<bool> no_save_optim{};
  std::optional<bool> eod_mask_loss{};
  std::optional<bool> optimizer_cpu_offload{};
  std::optional<bool> overlap_cpu_optimizer_d2h_h2d{};
  std::optional<bool> use_precision_aware_optimizer{};
  std::optional<int> decoder_last_pipeline_num_layers{};
  std::optional<std::string> recompute_granularity{};
  std::optional<std::string> recompute_method{};
  std::optional<int> recompute_num_layers{};
  std::optional<BoolOrWord> attention_backend{};
  std::optional<int> expert_model_parallel_size{};
  std::optional<int> context_parallel_size{};
  std::optional<double> attention_dropout{};
  std::optional<double> hidden_dropout{};
  std::optional<bool> attention_softmax_in_fp32{};
  std::optional<int> expert_tensor_parallel_size{};
  std::optional<bool> calculate_per_token_loss{};
  std::optional<bool> use_rotary_position_embeddings{};
  KeySpellings spellings{};
  bool operator==(const MegatronLMConfig&) const = default;
};

/// Section `parallelism_config`; the keys carry the prefix `parallelism_config_`.
struct ParallelismConfig {
  std::optional<int> dp_replicate_size{};
  std::optional<int> dp_shard_size{};
  std::optional<int> tp_size{};
  std::optional<int> cp_size{};
  std::optional<std::string> cp_backend{};
  std::optional<std::string> cp_comm_strategy{};  ///< allgather or alltoall.
  std::optional<int> sp_size{};
  std::optional<std::string> sp_backend{};
  std::optional<int> sp_seq_length{};
  std::optional<bool> sp_seq_length_is_variable{};
  std::optional<std::string> sp_attn_implementation{};
  KeySpellings spellings{};
  bool operator==(const ParallelismConfig&) const = default;
};

/// Section `fp8_config`; a file may write the prefix `fp8_`.
struct Fp8Config {
  std::optional<std::string> backend{};  ///< AO, TE or MSAMP.
  std::optional<bool> use_autocast_during_eval{};
  std::optional<int> margin{};
  std::optional<int> interval{};
  std::optional<std::string> format{};  ///< HYBRID, E4M3 or E5M2.
  std::optional<int> amax_history_len{};
  std::optional<std::string> amax_compute_algo{};  ///< max or most_recent.
  /// Higher precision in forward, input gradient and weight gradient.
  std::optional<std::vector<bool>> override_linear_precision;
  std::optional<bool> use_mxfp8_block_scaling{};
  std::optional<std::string> opt_level{};  ///< O1 or O2.
  std::optional<bool> enable_fsdp_float8_all_gather{};
  std::optional<bool> pad_inner_dim{};
  KeySpellings spellings{};
  bool operator==(const Fp8Config&) const = default;
};

/// Section `dynamo_config`; the keys carry the prefix `dynamo_`. Only Python programs use it.
struct DynamoConfig {
  std::optional<std::string> backend{};
  std::optional<std::string> mode{};
  std::optional<bool> use_fullgraph{};
  std::optional<bool> use_dynamic{};
  std::optional<bool> use_regional_compilation{};
  KeySpellings spellings{};
  bool operator==(const DynamoConfig&) const = default;
};

/// Section `mpirun_config`.
struct MpirunConfig {
  std::optional<std::string> mpirun_hostfile{};
  /// Written by versions of the original up to 1.x; kept, but not used.
  std::optional<std::string> mpirun_ccl;
  KeySpellings spellings{};
  bool operator==(const MpirunConfig&) const = default;
};

/// A whole configuration file.
struct ClusterConfig {
  ComputeEnvironment compute_environment = ComputeEnvironment::LOCAL_MACHINE;
  DistributedType distributed_type = DistributedType::NO;
  std::optional<MixedPrecision> mixed_precision{};  ///< "no" at launch when absent.
  bool use_cpu = false;                             ///< CPU even where a GPU is present.
  bool debug = false;                               ///< Check tensors' devices in collectives.

  int num_processes = -1;  ///< Ranks on all machines together; -1: the command line must say.
  int machine_rank = 0;
  int num_machines = 1;
  std::optional<std::string> gpu_ids{};  ///< "all" or a comma list.
  std::optional<std::string> main_process_ip{};
  std::optional<int> main_process_port{};  ///< 0: any free port.
  std::string rdzv_backend = "static";
  bool same_network = false;
  std::string main_training_function = "main";
  bool enable_cpu_affinity = false;

  BoolOrWord downcast_bf16 = false;
  std::optional<std::string> tpu_name{};
  std::optional<std::string> tpu_zone{};
  bool tpu_use_cluster = false;
  bool tpu_use_sudo = false;
  std::optional<std::string> command_file{};
  std::optional<std::vector<std::string>> commands{};
  std::optional<std::vector<std::string>> tpu_vm{};
  std::optional<std::vector<std::string>> tpu_env{};

  FullyShardedDataParallelPlugin fsdp_config{};
  DeepSpeedConfig deepspeed_config{};
  MegatronLMConfig megatron_lm_config{};
  ParallelismConfig parallelism_config{};
  Fp8Config fp8_config{};
  DynamoConfig dynamo_config{};
  MpirunConfig mpirun_config{};
  KeySpellings spellings{};
  bool operator==(const ClusterConfig&) const = default;
};

}  // namespace accelerate
