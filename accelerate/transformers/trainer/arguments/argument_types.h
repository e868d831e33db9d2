// Types of the arguments of a training: words, `.eval_strategy = "epoch"`, and types that take more
// than one form, `.fsdp = true` and `.fsdp = "full_shard"`.
#pragma once

#include <array>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/config/fsdp_plugin.h"
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

/// A list of texts. One text may stand for a list of one: `.report_to = "tensorboard"`.
class Words {
 public:
  Words() = default;
  // NOLINTBEGIN(google-explicit-constructor): `.report_to = "tensorboard"` is the point.
  Words(const char* text) : texts_{text} {}
  Words(std::string text) : texts_{std::move(text)} {}
  Words(std::vector<std::string> texts) : texts_(std::move(texts)) {}
  Words(std::initializer_list<std::string> texts) : texts_(texts) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  [[nodiscard]] bool empty() const { return texts_.empty(); }
  bool operator==(const Words&) const = default;

 private:
  std::vector<std::string> texts_;
};

/// Whether and how models are sharded: true; or one of "full_shard", "shard_grad_op",
/// "hybrid_shard", "hybrid_shard_zero2" and "no_shard", with "offload" and "auto_wrap" beside it.
/// Words are given as one text ("full_shard auto_wrap") or as a list, and kept in lower case. With
/// true alone `fsdp_config` or the launcher says how. False or empty: as the launcher says.
class FsdpOption {
 public:
  FsdpOption() = default;
  // NOLINTBEGIN(google-explicit-constructor): `.fsdp = "full_shard"` is the point.
  FsdpOption(bool on) : FsdpOption(std::string(on ? "true" : "")) {}
  FsdpOption(const char* words) : FsdpOption(std::string(words)) {}
  FsdpOption(const std::string& words);
  FsdpOption(const std::vector<std::string>& words);
  FsdpOption(std::initializer_list<std::string> words)
      : FsdpOption(std::vector<std::string>(words)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  [[nodiscard]] bool has(const std::string& word) const;
  [[nodiscard]] bool empty() const { return words_.empty(); }
  bool operator==(const FsdpOption&) const = default;

 private:
  std::vector<std::string> words_;
};

/// How models are sharded. One of: the path of a file of `accelerate config`; the path of a JSON or
/// YAML file with the keys of its section fsdp_config; a plugin.
class FsdpConfigOption {
 public:
  FsdpConfigOption() = default;
  // NOLINTBEGIN(google-explicit-constructor): `.fsdp_config = "fsdp.yaml"` is the point.
  FsdpConfigOption(const char* path) : value_(std::filesystem::path(path)) {}
  FsdpConfigOption(const std::string& path) : value_(std::filesystem::path(path)) {}
  FsdpConfigOption(std::filesystem::path path) : value_(std::move(path)) {}
  FsdpConfigOption(FullyShardedDataParallelPlugin plugin) : value_(std::move(plugin)) {}
  // NOLINTEND(google-explicit-constructor)

  using Value = std::variant<std::monostate, std::filesystem::path, FullyShardedDataParallelPlugin>;
  [[nodiscard]] const Value& value() const { return value_; }
  [[nodiscard]] bool empty() const { return std::holds_alternative<std::monostate>(value_); }

 private:
  Value value_;
};

/// Settings of the loaders that an Accelerator prepares.
struct AcceleratorConfig {
  bool split_batches = false;                 ///< Divides each batch among the ranks.
  std::optional<bool> dispatch_batches = {};  ///< Rank 0 reads for all; default: for streams.
  bool even_batches = true;          ///< Repeats the first samples so that ranks get equally many.
  bool use_seedable_sampler = true;  ///< Seed and epoch alone decide the order.
  bool non_blocking = false;         ///< Moves batches to the device without waiting.
};

/// Where a training goes on: nowhere, at the newest checkpoint of output_dir (true or "true"), there
/// or at the beginning ("last"), or at the checkpoint in a folder.
class ResumeOption {
 public:
  ResumeOption() = default;
  // NOLINTBEGIN(google-explicit-constructor): `train({.resume_from_checkpoint = true})`.
  ResumeOption(bool newest) : newest_(newest) {}
  ResumeOption(const char* folder) : ResumeOption(std::filesystem::path(folder)) {}
  ResumeOption(const std::string& folder) : ResumeOption(std::filesystem::path(folder)) {}
  ResumeOption(std::filesystem::path folder);
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool newest() const { return newest_; }
  /// Whether the training begins anew if there is no checkpoint.
  [[nodiscard]] bool may_begin_anew() const { return may_begin_anew_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] bool empty() const { return !newest_ && folder_.empty(); }

 private:
  bool newest_ = false;
  bool may_begin_anew_ = false;
  std::filesystem::path folder_;
};

}  // namespace accelerate
