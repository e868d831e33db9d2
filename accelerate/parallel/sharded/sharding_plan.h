// From a model and settings to units, groups and the place of full parameters.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/config/fsdp_plugin.h"
#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/parallel/sharded/gradient_shards.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// Splits `communicator` as the strategy says. [collective] Throws ConfigError: ranks that do not
/// divide into groups.
[[nodiscard]] ShardGroups make_groups(Communicator& communicator, const FsdpSettings& settings,
                                      int ranks_of_host);

/// What ranks must have decided alike, by name: {"sharding_strategy", "FULL_SHARD"}, ….
[[nodiscard]] std::vector<std::pair<std::string, std::string>> words_of(
    const FsdpSettings& settings);
/// The same in one line: "sharding_strategy FULL_SHARD, …".
[[nodiscard]] std::string text_of(const FsdpSettings& settings);

struct UnitPlace {
  int slices = 1;
  int slice = 0;
  c10::Device device;
};

/// The units of `view` that `settings` ask for, each of one type and either all trained or all
/// frozen; the root first. Throws UsageError: a parameter that cannot be sharded.
[[nodiscard]] Units make_units(const ModuleView& view, const FsdpSettings& settings,
                               const UnitPlace& place);

struct ChosenParameters {
  std::unique_ptr<FullParameters> full;
  std::string name;
};

/// Shared pages where ranks share memory, gathered slots elsewhere, unless the settings say.
/// [collective] Throws ConfigError: pages for ranks that cannot have them.
[[nodiscard]] ChosenParameters choose_full_parameters(const ShardGroups& groups,
                                                      const FsdpSettings& settings,
                                                      c10::Device device);

}  // namespace accelerate::detail
