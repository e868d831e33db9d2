#include "accelerate/parallel/gradients/gradient_reducer.h"

#include <algorithm>
#include <cstddef>

namespace accelerate::detail {
namespace {

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

}  // namespace

UsageError thawed(const std::string& name) {
  return UsageError("'" + name +
                    "' was frozen when the model was prepared and requires gradients now, which "
                    "would not be synchronised. Unfreeze it before prepare(), or prepare the model "
                    "again with a new Accelerator.");
}

UsageError came_unexpectedly(const Slot& slot, bool static_graph) {
  const std::string gradient = "the gradient of '" + slot.name + "' came ";
  if (static_graph) {
    return UsageError(gradient + std::to_string(slot.accumulations) +
                      " times in this backward and " + std::to_string(slot.expected) +
                      " times in the first one, but static_graph = true promises that all are "
                      "alike. Leave it out, or use find_unused_parameters = true.");
  }
  if (!slot.reached) {
    return UsageError(gradient +
                      "although the graph of the loss does not lead to it: a node of the graph "
                      "runs a backward of its own (re-entrant activation checkpointing), which "
                      "find_unused_parameters cannot look into. Use static_graph = true when all "
                      "steps are alike.");
  }
  return UsageError(gradient +
                    "twice in one backward. A re-entrant backward (activation checkpointing of a "
                    "shared parameter) is the usual cause; pass static_graph = true when all steps "
                    "are alike, or run the inner one under no_sync.");
}

UsageError stayed_away(const std::vector<std::string>& names, bool static_graph) {
  if (static_graph) {
    return UsageError(
        "these parameters got fewer gradients than in the first step: " + list(names) +
        ". static_graph = true promises that all steps are alike; leave it out, or "
        "use find_unused_parameters = true.");
  }
  return UsageError("these parameters require gradients but got none in backward: " + list(names) +
                    ". If forward does not always use them, pass find_unused_parameters = true "
                    "(DistributedDataParallelKwargs); else freeze them with requires_grad_(false) "
                    "or use their output in the loss.");
}

UsageError unknown_to_the_group(const std::vector<std::string>& names) {
  return UsageError(
      "these parameters got gradients in the first step of this rank, but no other rank used them "
      "in its own first step, in which this rank had no inputs: " +
      list(names) +
      ". static_graph = true promises that all steps are alike; leave it out, or use "
      "find_unused_parameters = true.");
}

UsageError is_sparse(const std::string& name) {
  return UsageError("the gradient of '" + name +
                    "' is sparse, and data parallel training reduces dense gradients. Make the "
                    "embedding with sparse(false).");
}

}  // namespace accelerate::detail
