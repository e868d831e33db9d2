// What DeepSpeed's settings decide. The program's plugin, the launcher's variables and DeepSpeed's
// own JSON file are asked once, and what they say of one thing must agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/launch/config/deepspeed_file.h"
#include "accelerate/launch/config/deepspeed_plugin.h"
#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/fsdp_options.h"

namespace accelerate {

/// Section `fp16` of a file, with DeepSpeed's defaults. docs/deepspeed.md says how the scale moves.
struct LossScaling {
  double loss_scale = 0;                ///< A scale that never moves; 0: it adapts.
  int initial_scale_power = 16;         ///< The first scale is 2 to this power.
  std::int64_t window = 1000;           ///< Good steps in a row until the scale doubles.
  std::int64_t hysteresis = 2;          ///< Overflows until the scale halves.
  bool consecutive_hysteresis = false;  ///< Whether a good step restores the hysteresis.
  double min_loss_scale = 1;            ///< The scale never falls below.
  bool operator==(const LossScaling&) const = default;
};

/// What a program says outside of its plugin.
struct DeepSpeedProgram {
  /// Its own, or the launcher's. `no` leaves the choice to the file.
  std::optional<MixedPrecision> mixed_precision{};
  int gradient_accumulation_steps = 1;
  int num_processes = 1;
};

struct ResolvedDeepSpeed {
  ResolvedFsdpOptions sharding{};
  MixedPrecision mixed_precision = MixedPrecision::no;
  std::optional<int> gradient_accumulation_steps{};  ///< Absent: the program's.
  double gradient_clipping = 0;                      ///< Largest norm of the gradients; 0: any.
  std::optional<LossScaling> loss_scaling{};         ///< Under fp16 with a file.
  std::optional<std::int64_t> micro_batch_size{};    ///< Samples of a rank in a micro-batch.
  std::optional<DeepSpeedFile> file{};
};

/// Returns the file that the program names, else the launcher's; nullopt if there is none. Throws
/// ConfigError as read_deepspeed_file() does.
[[nodiscard]] std::optional<DeepSpeedFile> deepspeed_file_of(const DeepSpeedPlugin& plugin);

/// Decides everything. For each key the program's plugin comes first, then the launcher's variable.
/// A value of the file counts beside both, and must equal them; "auto" leaves the key to them.
///
/// Throws ConfigError for a file without zero_optimization; for a file beside keys of the
/// launcher's file that it makes void (ACCELERATE_CONFIG_DS_FIELDS); for all contradictions at
/// once; and as settings_of() does. Warns of what has no effect.
[[nodiscard]] ResolvedDeepSpeed resolve_deepspeed(const DeepSpeedPlugin& plugin,
                                                  const DeepSpeedProgram& program);

}  // namespace accelerate
