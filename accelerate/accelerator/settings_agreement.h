// Compares the settings that all ranks must have alike: when they prepare a model, and before the
// first step. Ranks that differ would keep training, each in its own way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerate/data/loader_plan.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/optim/precision/grad_scaler.h"
#include "accelerate/parallel/replicated/ddp_kwargs.h"

namespace accelerate {
class Communicator;

namespace detail {

/// Returns the shortest text that reads back as `value`: "0.1".
[[nodiscard]] std::string text_of(double value);

/// The settings of one rank, as text by name.
class SettingsAgreement {
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
  void add(const ResolvedFsdpOptions& fsdp);
  void add(const GradScalerKwargs& scaler);
  /// Adds the settings of a loader, prepared or not; their names begin with `name`.
  void add(const std::string& name, const LoaderPlan& loader);

  /// Throws ConfigError on all ranks if they differ. The error names the settings that differ and
  /// the values on two ranks. Throws CommError if another rank is in a different call. `where`
  /// begins the message: "prepare()". [collective] Cost: an all-gather of 16 bytes.
  void require_same(Communicator& ranks, const std::string& where) const;

 private:
  std::string text_;  // One line per setting: name, tab, value.
};

}  // namespace detail
}  // namespace accelerate
