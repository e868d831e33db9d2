// Steps that succeed on all ranks or on none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/formats/manifest.h"

namespace accelerate {

/// Runs `phase` on this rank and returns when all ranks have finished it. [collective] If it throws
/// on one rank, every rank throws: that rank its error, its peers a CheckpointError about it.
void on_all_ranks(Communicator& ranks, const std::function<void()>& phase);

/// What a rank reports at the end of a phase.
struct PhaseReport {
  std::string error = {};  ///< Empty on success.
  std::vector<ManifestFile> files = {};
  int leader = 0;                      ///< Of the ranks that share its disk.
  std::vector<std::string> said = {};  ///< Names; the phase decides of what.
};

/// As on_all_ranks(); returns the reports of all ranks, which `phase` has filled in. [collective]
std::vector<PhaseReport> in_phase(Communicator& ranks,
                                  const std::function<void(PhaseReport&)>& phase);

}  // namespace accelerate
