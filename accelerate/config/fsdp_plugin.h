// What a program and its launcher say about sharded training, and the same with everything decided.
//
//   FullyShardedDataParallelPlugin plugin{.auto_wrap_policy =
//   AutoWrapPolicy::TRANSFORMER_BASED_WRAP,
//                                         .transformer_cls_names_to_wrap = {{"BertLayer"}}};
//   const FsdpSettings settings = resolve(plugin, MixedPrecision::bf16);
//
// A field is decided by the first that speaks: the program, the variable FSDP_<X> that
// `accelerate launch` sets from `fsdp_config`, upstream's default. docs/config_keys.md says what
// each key does here. Source: `FullyShardedDataParallelPlugin` of Hugging Face Accelerate 1.15; its
// fields that hold objects of PyTorch (`state_dict_config`, `optim_state_dict_config`,
// `param_init_fn`) have no counterpart: files are written shard by shard from every rank, and
// accelerate/big_model fills modules of the meta device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "accelerate/config/enums.h"
#include "accelerate/formats/safetensors/dtype.h"

namespace accelerate {

/// Element types under sharded training: f16, bf16 or f32; absent: as the model has them.
struct MixedPrecisionPolicy {
  std::optional<DType> param_dtype{};   ///< Of gathered parameters, so of forward and backward.
  std::optional<DType> reduce_dtype{};  ///< In which gradients travel.
  std::optional<DType> buffer_dtype{};  ///< Of floating buffers (version 1).
  std::optional<DType> output_dtype{};  ///< Of what the model returns (version 2).
  bool operator==(const MixedPrecisionPolicy&) const = default;
};

/// What a program says: upstream's names in upstream's order, then ours. A field that is left out
/// is the launcher's to say.
struct FullyShardedDataParallelPlugin {
  std::optional<int> fsdp_version{};  ///< Names, defaults and rules of PyTorch's FSDP 1 or 2; 1.
  std::optional<ShardingStrategy> sharding_strategy{};  ///< Version 1; FULL_SHARD.
  /// Version 2: true frees whole parameters between forward and backward (FULL_SHARD), false keeps
  /// them (SHARD_GRAD_OP); true. Version 1: another name of sharding_strategy.
  std::optional<std::variant<bool, ShardingStrategy>> reshard_after_forward{};
  std::optional<BackwardPrefetch> backward_prefetch{};  ///< Version 1; NO_PREFETCH.
  /// A word ("fp16", "bf16", "fp32", or "fp8", which is bf16) or types one by one; when absent the
  /// Accelerator's mixed precision decides.
  std::optional<std::variant<std::string, MixedPrecisionPolicy>> mixed_precision_policy{};
  std::optional<AutoWrapPolicy> auto_wrap_policy{};  ///< How modules become units; NO_WRAP.
  std::optional<bool> cpu_offload{};  ///< Shards and optimizer state in host memory; false.
  /// Regular expressions (ECMAScript); a module whose whole name matches one, and all below it, is
  /// not sharded: every rank has its parameters. None.
  std::optional<std::vector<std::string>> ignored_modules{};
  std::optional<StateDictType> state_dict_type{};  ///< FULL_STATE_DICT; version 2 SHARDED_….
  bool limit_all_gathers = true;             ///< Accepted: only one unit is ever gathered ahead.
  std::optional<bool> use_orig_params{};     ///< Version 1; accepted: parameters stay the user's.
  std::optional<bool> sync_module_states{};  ///< Version 1: rank 0's values to all; false.
  std::optional<bool> forward_prefetch{};    ///< Version 1: gather ahead in forward too; false.
  std::optional<bool> activation_checkpointing{};          ///< true is refused, see resolve().
  std::optional<bool> activation_checkpointing_offload{};  ///< As activation_checkpointing.
  std::optional<bool> cpu_ram_efficient_loading{};         ///< Only rank 0 reads weights; false.
  /// Class names without namespace and `Impl`, for TRANSFORMER_BASED_WRAP.
  std::optional<std::vector<std::string>> transformer_cls_names_to_wrap{};
  std::optional<std::int64_t> min_num_params{};  ///< For SIZE_BASED_WRAP; 0, which wraps nothing.

  /// Ours. Ranks that share one replica; 0: those of one host. For HYBRID_SHARD and
  /// HYBRID_SHARD_ZERO2; with version 2 a value above 0 chooses them.
  /// Variable: ACCELERATE_FSDP_SHARD_GROUP_SIZE.
  std::optional<int> shard_group_size{};
  /// Ours. Variable: ACCELERATE_FSDP_FULL_PARAMETERS; automatic.
  std::optional<FullParametersHome> full_parameters{};
};

/// Every field decided and checked: what the engine gets. Meanings as above.
struct FsdpSettings {
  int version = 1;
  ShardingStrategy sharding_strategy = ShardingStrategy::FULL_SHARD;
  /// Under version 2 BACKWARD_PRE: what FSDP 2 does by itself.
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
  bool use_orig_params = false;  ///< Under version 2 true: what FSDP 2 does by itself.
  /// True whenever cpu_ram_efficient_loading is; under version 2 only then.
  bool sync_module_states = false;
  bool forward_prefetch = false;
  bool cpu_ram_efficient_loading = false;
  std::vector<std::string> transformer_cls_names_to_wrap{};
  std::int64_t min_num_params = 0;
  int shard_group_size = 0;
  FullParametersHome full_parameters = FullParametersHome::automatic;
  bool operator==(const FsdpSettings&) const = default;
};

/// Whether the launcher asked for sharded training: ACCELERATE_USE_FSDP. A program that hands a
/// plugin to its Accelerator asks by that. Throws ConfigError when the variable is no boolean.
[[nodiscard]] bool use_fsdp();

/// Decides every field of `plugin`, reading the environment for those that it leaves out.
/// `mixed_precision` is the Accelerator's: fp16 and bf16 set all types of the version, fp8 counts
/// as bf16, `no` sets none. Warns of what a version ignores. Throws ConfigError, which says what
/// was found, where, what is allowed and the cure: for a word or number out of range, fields that
/// contradict one another or the version, a bad regular expression, and activation checkpointing,
/// which this version does not have.
[[nodiscard]] FsdpSettings resolve(const FullyShardedDataParallelPlugin& plugin,
                                   MixedPrecision mixed_precision);

}  // namespace accelerate
