// Settings that all ranks must have alike, compared once when they prepare a model and once before
// their first step. Ranks that differ in them would train on, each in its own way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerate/config/fsdp_plugin.h"
#include "accelerate/data/loader_plan.h"
#include "accelerate/parallel/replicated/ddp_kwargs.h"
#include "accelerate/precision/grad_scaler.h"

namespace accelerate {
class Communicator;

namespace detail {

/// The shortest text that is read as `value` again: "0.1".
[[nodiscard]] std::string text_of(double value);

/// The settings of one rank, by name and in words.
class Settings {
 public:
  void add(const std::string& name, const std::string& value);
  void add(const std::string& name, const char* value) { add(name, std::string(value)); }
  void add(const std::string& name, bool value) { add(name, value ? "true" : "false"); }
  void add(const std::string& name, double value);
  void add(const std::string& name, int value) { add(name, std::to_string(value)); }
  void add(const std::string& name, const std::optional<bool>& value);

  void add(const GradientAccumulationPlugin& accumulation);
  void add(const DataLoaderConfiguration& config);
  void add(const DistributedDataParallelKwargs& ddp);
  void add(const FsdpSettings& fsdp);
  void add(const GradScalerKwargs& scaler);
  /// Of a loader that goes by `name`, prepared or not.
  void add(const std::string& name, const LoaderPlan& loader);

  /// Throws ConfigError on all ranks when they differ: with the settings that do, and the values of
  /// two ranks. Throws CommError when another rank is elsewhere, in a call that compares itself.
  /// `where` begins the message: "prepare()". [collective] Cost: an all-gather of 16 bytes.
  void require_same(Communicator& ranks, const std::string& where) const;

 private:
  std::string text_;  // A line each: name, tab, value.
};

}  // namespace detail
}  // namespace accelerate
