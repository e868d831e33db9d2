// Turns a model and its settings into units, groups and a place for full parameters.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/machine/hardware.h"
#include "accelerate/comm/shared_memory/pages.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/parallel/sharded/gradient_shards.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

// Full values that are always there: in this rank's own memory, or in pages that all ranks of a
// host map. The pages hold one copy, and the owner of a slice writes it for all ranks.

class ResidentParameters final : public FullParameters {
 public:
  /// Uses pages of `group`, the ranks that share the model; in a group of one, this rank's own
  /// memory.
  explicit ResidentParameters(std::shared_ptr<Communicator> group) : group_(std::move(group)) {}

  void adopt(Units& units) override;
  /// Waits for all ranks, after which none computes with the old values.
  void begin_update() override { group_->barrier(); }
  /// Writes this rank's new values and waits until all ranks have done so.
  void end_update(std::int64_t updates) override;
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }

 private:
  [[nodiscard]] at::Tensor allocate(c10::Device device);

  std::shared_ptr<Communicator> group_;
  std::shared_ptr<SharedPages> pages_;
  std::size_t bytes_ = 0;
  at::Tensor memory_;
  Units* units_ = nullptr;
};

/// Splits `communicator` as the strategy says. [collective] Throws ConfigError when the ranks do
/// not divide into equal groups.
[[nodiscard]] ShardGroups make_groups(Communicator& communicator,
                                      const ResolvedFsdpOptions& settings);

struct UnitPlace {
  int slices = 1;
  int slice = 0;
  c10::Device device;
};

/// Returns the units of `view` that `settings` ask for, the root first. A unit has one type, and is
/// all trained or all frozen. Throws UsageError for a parameter that cannot be sharded.
[[nodiscard]] Units make_units(const ModuleView& view, const ResolvedFsdpOptions& settings,
                               const UnitPlace& place);

/// Gives the units files for what `settings` offload to disk. Returns null if that is nothing.
/// [collective] Throws UsageError on all ranks when a rank has no space or no folder, or when the
/// machine lacks the memory for one unit.
[[nodiscard]] std::shared_ptr<OffloadStore> offload_units(Units& units, const ShardGroups& groups,
                                                          const ResolvedFsdpOptions& settings);

/// Says why `ranks` ranks that share `memory` cannot use the largest unit beside the root; "" if they
/// can.
[[nodiscard]] std::string lack_of_memory(const Units& units, const AvailableMemory& memory,
                                         int ranks);

struct ChosenParameters {
  std::unique_ptr<FullParameters> full;
  std::string name;
};

/// Chooses shared pages where ranks share memory, and gathered slots elsewhere, unless the settings
/// name one. [collective] Throws ConfigError when the settings name pages and the ranks cannot have
/// them, or that parameters are offloaded to disk, which are gathered.
[[nodiscard]] ChosenParameters choose_full_parameters(const ShardGroups& groups,
                                                      const ResolvedFsdpOptions& settings,
                                                      c10::Device device);

}  // namespace accelerate::detail
