// The fields of sharded training as plain data: what a program says (the plugin), and what the
// engine gets (the settings). resolve() in fsdp_plugin.h makes the settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "accelerate/formats/safetensors/dtype.h"
#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/word.h"

namespace accelerate {

/// Element types under sharded training: f16, bf16 or f32. An absent type is the model's own.
struct MixedPrecisionPolicy {
  std::optional<DType> param_dtype{};   ///< Gathered parameters, and so forward and backward.
  std::optional<DType> reduce_dtype{};  ///< Gradients while they travel between ranks.
  std::optional<DType> buffer_dtype{};  ///< Floating-point buffers (version 1).
  std::optional<DType> output_dtype{};  ///< What the model returns (version 2).
  bool operator==(const MixedPrecisionPolicy&) const = default;
};

/// What lives in files instead of memory, on a disk of the machine. Each rank makes a folder of its
/// own in the one that is named, and removes it in the end.
struct DiskOffload {
  /// Slices of parameters, which are read when a unit is used; empty: in memory.
  std::string parameters_folder{};
  /// Gradients and the optimizer's state, and fp32 masters of 16-bit parameters; empty: in memory.
  std::string optimizer_folder{};
  /// Bytes of slices that stay in memory all the same, on each rank: whole units, the first ones.
  std::int64_t max_in_cpu = 0;
  bool operator==(const DiskOffload&) const = default;
};

/// What somebody says about sharded training: a program, the launcher's variables, or the section
/// `fsdp_config` of a file, whose keys carry the prefix `fsdp_`, which a file may leave out. Names
/// are upstream's, in upstream's order, then ours. Fields that are left out are not said.
struct FullyShardedDataParallelPlugin {
  /// Names, defaults and rules of PyTorch's FSDP 1 or 2; default 1.
  std::optional<int> fsdp_version{};
  std::optional<Word<ShardingStrategy>> sharding_strategy{};  ///< Version 1; default FULL_SHARD.
  /// Version 2: true frees whole parameters between forward and backward (FULL_SHARD), false keeps
  /// them (SHARD_GRAD_OP); default true. Version 1: another name of sharding_strategy.
  std::optional<std::variant<bool, ShardingStrategy>> reshard_after_forward{};
  std::optional<Word<BackwardPrefetch>> backward_prefetch{};  ///< Version 1; default NO_PREFETCH.
  /// A word ("fp16", "bf16", "fp32", or "fp8", which means bf16), or a type for each use. When
  /// absent the Accelerator's mixed precision decides.
  std::optional<std::variant<std::string, MixedPrecisionPolicy>> mixed_precision_policy{};
  /// How modules become units; default NO_WRAP.
  std::optional<Word<AutoWrapPolicy>> auto_wrap_policy{};
  /// Keeps shards and optimizer state in host memory; default false.
  std::optional<bool> cpu_offload{};
  /// Regular expressions (ECMAScript); default none. A module whose whole name matches one is not
  /// sharded, nor is anything below it: every rank has its parameters.
  std::optional<std::vector<std::string>> ignored_modules{};
  /// Default FULL_STATE_DICT; in version 2 SHARDED_STATE_DICT.
  std::optional<Word<StateDictType>> state_dict_type{};
  bool limit_all_gathers = true;  ///< No effect: only one unit is ever gathered ahead.
  /// Version 1. No effect: parameters stay the user's in any case.
  std::optional<bool> use_orig_params{};
  std::optional<bool> sync_module_states{};  ///< Version 1: rank 0's values to all; default false.
  /// Version 1: gathers ahead in forward too; default false.
  std::optional<bool> forward_prefetch{};
  /// Units compute their activations again in backward; default false.
  std::optional<bool> activation_checkpointing{};
  /// Version 2: their inputs wait in host memory; default false.
  std::optional<bool> activation_checkpointing_offload{};
  /// Only rank 0 reads weights; default false.
  std::optional<bool> cpu_ram_efficient_loading{};
  /// Class names without namespace and `Impl`, for TRANSFORMER_BASED_WRAP.
  std::optional<std::vector<std::string>> transformer_cls_names_to_wrap{};
  /// For SIZE_BASED_WRAP; default 0, which wraps nothing.
  std::optional<std::int64_t> min_num_params{};

  /// Ours. How many ranks share one replica; 0 means the ranks of one host. For HYBRID_SHARD and
  /// HYBRID_SHARD_ZERO2; in version 2 a value above 0 chooses these strategies.
  /// Variable: ACCELERATE_FSDP_SHARD_GROUP_SIZE.
  std::optional<int> shard_group_size{};
  /// Ours; default automatic. Variable: ACCELERATE_FSDP_FULL_PARAMETERS.
  std::optional<Word<FullParametersHome>> full_parameters{};
  /// Ours; default nothing. The launcher has it as `offload_optimizer_device` and
  /// `offload_param_device` of `deepspeed_config`, which may be nvme.
  std::optional<DiskOffload> disk_offload{};
  KeySpellings spellings{};  ///< How the keys stood in a file.
  bool operator==(const FullyShardedDataParallelPlugin&) const = default;
};

/// Every field decided and checked, as the engine gets it. Fields mean what they mean in the
/// plugin.
struct ResolvedFsdpOptions {
  int version = 1;
  ShardingStrategy sharding_strategy = ShardingStrategy::FULL_SHARD;
  /// BACKWARD_PRE under version 2, as FSDP 2 always does.
  BackwardPrefetch backward_prefetch = BackwardPrefetch::NO_PREFETCH;
  std::optional<DType> param_dtype{};
  std::optional<DType> reduce_dtype{};
  std::optional<DType> buffer_dtype{};
  std::optional<DType> output_dtype{};
  AutoWrapPolicy auto_wrap_policy = AutoWrapPolicy::NO_WRAP;
  bool cpu_offload = false;
  std::vector<std::string> ignored_modules{};
  StateDictType state_dict_type = StateDictType::FULL_STATE_DICT;
  bool limit_all_gathers = true;
  bool use_orig_params = false;  ///< True under version 2, as FSDP 2 always does.
  /// True whenever cpu_ram_efficient_loading is; under version 2 only then.
  bool sync_module_states = false;
  bool forward_prefetch = false;
  bool activation_checkpointing = false;
  bool activation_checkpointing_offload = false;
  bool cpu_ram_efficient_loading = false;
  std::vector<std::string> transformer_cls_names_to_wrap{};
  std::int64_t min_num_params = 0;
  int shard_group_size = 0;
  FullParametersHome full_parameters = FullParametersHome::automatic;
  DiskOffload offload{};
  bool operator==(const ResolvedFsdpOptions&) const = default;
};

}  // namespace accelerate
