// The words that arguments of a training take, and fields that convert from them: `.eval_strategy =
// "epoch"`.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "accelerate/launch/config/word.h"

namespace accelerate {

/// When something is done: never, every so many steps, or at the end of each epoch.
enum class IntervalStrategy { no, steps, epoch };
/// When a checkpoint is saved. `best`: after each evaluation that is better than all before.
enum class SaveStrategy { no, steps, epoch, best };
/// What is pushed to the hub and when: the model at the end, the model with each checkpoint, the
/// newest checkpoint too (as `last-checkpoint`), or every checkpoint.
enum class HubStrategy { end, every_save, checkpoint, all_checkpoints };
/// The order of training samples. `batch_rebalance`: batches of one step differ in size, so that
/// each costs about the same.
enum class SamplingStrategy { random, sequential, group_by_length, batch_rebalance };
/// Which of the trained tokens are counted: none, all, or all but padding.
enum class CountedTokens { no, all, non_padding };
/// The optimizers of `TrainingArguments::optim`.
enum class OptimizerName {
  adamw_torch,
  adamw_torch_fused,
  sgd,
  adagrad,
  rmsprop,
  adafactor,
  lion_32bit,
  schedule_free_adamw,
};
/// The least severe messages that the library logs. `passive`: the level stays as it is set.
enum class Verbosity { passive, debug, info, warning, error, critical };

namespace detail {

// clang-format off
#define ACCELERATE_ENUM_WORDS(Enum, ...)                                       \
  template <>                                                                  \
  struct EnumWords<Enum> {                                                     \
    using enum Enum;                                                           \
    static constexpr auto values = std::to_array<std::pair<Enum, std::string_view>>({__VA_ARGS__}); \
  }
// clang-format on
ACCELERATE_ENUM_WORDS(IntervalStrategy, {no, "no"}, {steps, "steps"}, {epoch, "epoch"});
ACCELERATE_ENUM_WORDS(SaveStrategy, {no, "no"}, {steps, "steps"}, {epoch, "epoch"}, {best, "best"});
ACCELERATE_ENUM_WORDS(HubStrategy, {end, "end"}, {every_save, "every_save"},
                      {checkpoint, "checkpoint"}, {all_checkpoints, "all_checkpoints"});
ACCELERATE_ENUM_WORDS(SamplingStrategy, {random, "random"}, {sequential, "sequential"},
                      {group_by_length, "group_by_length"}, {batch_rebalance, "batch_rebalance"});
ACCELERATE_ENUM_WORDS(CountedTokens, {no, "no"}, {all, "all"}, {non_padding, "non_padding"});
ACCELERATE_ENUM_WORDS(OptimizerName, {adamw_torch, "adamw_torch"},
                      {adamw_torch_fused, "adamw_torch_fused"}, {sgd, "sgd"}, {adagrad, "adagrad"},
                      {rmsprop, "rmsprop"}, {adafactor, "adafactor"}, {lion_32bit, "lion_32bit"},
                      {schedule_free_adamw, "schedule_free_adamw"});
ACCELERATE_ENUM_WORDS(Verbosity, {passive, "passive"}, {debug, "debug"}, {info, "info"},
                      {warning, "warning"}, {error, "error"}, {critical, "critical"});
#undef ACCELERATE_ENUM_WORDS

}  // namespace detail

}  // namespace accelerate
