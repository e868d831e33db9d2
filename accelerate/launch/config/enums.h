// The closed sets of words that configuration files, flags and environment variables use.
// Enumerators are spelled as users write them, so that the original's documentation fits ours.
//
//   to_string(MixedPrecision::bf16)            → "bf16"
//   parse_enum<DistributedType>("fsdp")        → DistributedType::FSDP  (any case)
//   enum_names<MixedPrecision>()               → {"no", "fp16", "bf16", "fp8"}
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/text.h"

namespace accelerate {

enum class ComputeEnvironment { LOCAL_MACHINE, AMAZON_SAGEMAKER };

// clang-format off
/// How the processes of a run work together.
enum class DistributedType {
  NO, MULTI_CPU, MULTI_GPU, MULTI_NPU, MULTI_MLU, MULTI_SDAA, MULTI_MUSA, MULTI_XPU, DEEPSPEED, FSDP, XLA,
  MEGATRON_LM, MULTI_HPU, MULTI_NEURON
};
// clang-format on

enum class MixedPrecision { no, fp16, bf16, fp8 };

/// What an FSDP unit keeps between its forward and its backward (PyTorch FSDP, version 1 names).
enum class ShardingStrategy {
  FULL_SHARD,
  SHARD_GRAD_OP,
  NO_SHARD,
  HYBRID_SHARD,
  HYBRID_SHARD_ZERO2
};

enum class AutoWrapPolicy { TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP };
enum class BackwardPrefetch { BACKWARD_PRE, BACKWARD_POST, NO_PREFETCH };
enum class StateDictType { FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT };

/// Where the whole parameters of a sharded model are while they are used (not in PyTorch): in
/// buffers that each rank gathers, or in memory that all ranks of a host map.
enum class FullParametersHome { automatic, gathered, shared_pages };

namespace detail {

/// Specialised for each enum: `values`, an array of {enumerator, its word} in the order users see.
template <typename Enum>
struct EnumWords;

// clang-format off
#define ACCELERATE_ENUM_WORDS(Enum, ...)                                       \
  template <>                                                                  \
  struct EnumWords<Enum> {                                                     \
    using enum Enum;                                                           \
    static constexpr auto values = std::to_array<std::pair<Enum, std::string_view>>({__VA_ARGS__}); \
  }
// clang-format on

ACCELERATE_ENUM_WORDS(ComputeEnvironment, {LOCAL_MACHINE, "LOCAL_MACHINE"},
                      {AMAZON_SAGEMAKER, "AMAZON_SAGEMAKER"});
ACCELERATE_ENUM_WORDS(DistributedType, {NO, "NO"}, {MULTI_CPU, "MULTI_CPU"},
                      {MULTI_GPU, "MULTI_GPU"}, {MULTI_NPU, "MULTI_NPU"}, {MULTI_MLU, "MULTI_MLU"},
                      {MULTI_SDAA, "MULTI_SDAA"}, {MULTI_MUSA, "MULTI_MUSA"},
                      {MULTI_XPU, "MULTI_XPU"}, {DEEPSPEED, "DEEPSPEED"}, {FSDP, "FSDP"},
                      {XLA, "XLA"}, {MEGATRON_LM, "MEGATRON_LM"}, {MULTI_HPU, "MULTI_HPU"},
                      {MULTI_NEURON, "MULTI_NEURON"});
ACCELERATE_ENUM_WORDS(MixedPrecision, {no, "no"}, {fp16, "fp16"}, {bf16, "bf16"}, {fp8, "fp8"});
ACCELERATE_ENUM_WORDS(ShardingStrategy, {FULL_SHARD, "FULL_SHARD"},
                      {SHARD_GRAD_OP, "SHARD_GRAD_OP"}, {NO_SHARD, "NO_SHARD"},
                      {HYBRID_SHARD, "HYBRID_SHARD"}, {HYBRID_SHARD_ZERO2, "HYBRID_SHARD_ZERO2"});
ACCELERATE_ENUM_WORDS(AutoWrapPolicy, {TRANSFORMER_BASED_WRAP, "TRANSFORMER_BASED_WRAP"},
                      {SIZE_BASED_WRAP, "SIZE_BASED_WRAP"}, {NO_WRAP, "NO_WRAP"});
ACCELERATE_ENUM_WORDS(BackwardPrefetch, {BACKWARD_PRE, "BACKWARD_PRE"},
                      {BACKWARD_POST, "BACKWARD_POST"}, {NO_PREFETCH, "NO_PREFETCH"});
ACCELERATE_ENUM_WORDS(StateDictType, {FULL_STATE_DICT, "FULL_STATE_DICT"},
                      {LOCAL_STATE_DICT, "LOCAL_STATE_DICT"},
                      {SHARDED_STATE_DICT, "SHARDED_STATE_DICT"});
ACCELERATE_ENUM_WORDS(FullParametersHome, {automatic, "automatic"}, {gathered, "gathered"},
                      {shared_pages, "shared_pages"});

#undef ACCELERATE_ENUM_WORDS

template <typename Enum>
concept WordedEnum = requires { EnumWords<Enum>::values; };

}  // namespace detail

/// The word that users write for `value`.
template <detail::WordedEnum Enum>
[[nodiscard]] constexpr std::string_view to_string(Enum value) {
  for (const auto& [enumerator, word] : detail::EnumWords<Enum>::values) {
    if (enumerator == value) return word;
  }
  return "?";
}

/// The enumerator whose word is `text`, case ignored; nullopt when there is none.
template <detail::WordedEnum Enum>
[[nodiscard]] std::optional<Enum> parse_enum(std::string_view text) {
  const std::string wanted = lower(text);
  for (const auto& [enumerator, word] : detail::EnumWords<Enum>::values) {
    if (lower(word) == wanted) return enumerator;
  }
  return std::nullopt;
}

/// All words of `Enum`, for menus, help texts and messages.
template <detail::WordedEnum Enum>
[[nodiscard]] std::vector<std::string> enum_names() {
  std::vector<std::string> names;
  for (const auto& [enumerator, word] : detail::EnumWords<Enum>::values) names.emplace_back(word);
  return names;
}

}  // namespace accelerate
