// Types of the arguments of a training that take more than one form: `.fsdp = true` and
// `.fsdp = "full_shard"`.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/config/fsdp_plugin.h"

namespace accelerate {

/// A list of texts. One text may stand for a list of one: `.report_to = "tensorboard"`.
class Words : public std::vector<std::string> {
 public:
  using vector::vector;
  // NOLINTBEGIN(google-explicit-constructor): `.report_to = "tensorboard"` is the point.
  Words(const char* text) : vector{std::string(text)} {}
  Words(std::string text) : vector{std::move(text)} {}
  Words(std::vector<std::string> texts) : vector(std::move(texts)) {}
  // NOLINTEND(google-explicit-constructor)
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

/// Where a training goes on: nowhere, at the newest checkpoint of output_dir (true or "true"), or
/// at the checkpoint in a folder.
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
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] bool empty() const { return !newest_ && folder_.empty(); }

 private:
  bool newest_ = false;
  std::filesystem::path folder_;
};

}  // namespace accelerate
