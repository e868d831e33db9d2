#include "accelerate/checkpoint/accumulation_window.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/codecs.h"

namespace accelerate {
namespace {

std::string gradients_stem(int rank) {
  return "gradients_" + std::to_string(rank);
}

std::vector<int> ranks_with_gradients(const Manifest& manifest) {
  constexpr std::string_view kPrefix = "gradients_", kSuffix = ".json";
  std::vector<int> ranks;
  for (const auto& [name, size_bytes, checksum] : manifest.files) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const auto digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    if (const auto rank = parse_int(digits); rank && *rank >= 0 && *rank < manifest.num_processes)
      ranks.push_back(static_cast<int>(*rank));
  }
  return ranks;
}

StateDict gradients_of(const ParameterNames& names, const std::vector<at::Tensor>& parameters) {
  StateDict::Dict gradients;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined())
      gradients[names.at(parameter.unsafeGetTensorImpl())] = parameter.grad();
  }
  return gradients;
}

// A saved gradient and the parameter that gets it.
struct SavedGradient {
  at::Tensor parameter, gradient;
};

std::vector<SavedGradient> saved_gradients(const StateDict& part, const OpenWindow& window) {
  const auto& saved = part.at("gradients");
  std::vector<SavedGradient> found;
  for (const auto& parameter : window.parameters) {
    const auto* gradient = saved.find(window.names.at(parameter.unsafeGetTensorImpl()));
    if (gradient == nullptr) continue;
    const auto tensor = gradient->to<at::Tensor>();
    if (tensor.sizes() != parameter.sizes() ||
        !c10::canCast(tensor.scalar_type(), parameter.scalar_type()))
      throw CheckpointError("a gradient is " + gradient->describe() + ", its parameter is " +
                            StateDict(parameter).describe());
    found.push_back({parameter, tensor});
  }
  return found;
}

// Adds `share` times the gradients that one rank saved to the present gradients.
void add_gradients(const std::vector<SavedGradient>& saved, double share) {
  const at::NoGradGuard no_grad;
  for (const auto& [parameter, gradient] : saved) {
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    parameter.mutable_grad().add_(gradient.to(parameter.device()), share);
  }
}

// Checks what one rank saved inside a window.
CheckedState check_window(const OpenWindow& window, const StateDict& part, double share) {
  const auto counted = count_if_any(&part.at("num_items"), "num_items");
  return {[&items = window.items, counted, gradients = saved_gradients(part, window), share] {
    if (counted) items.add(*counted);
    add_gradients(gradients, counted ? 1.0 : share);
  }};
}

void require_reachable(const OpenWindow& window, const Manifest& manifest) {
  if (!manifest.ranks.empty() &&
      (window.num_ranks != manifest.num_processes || !manifest.has_rank(window.rank)))
    throw CheckpointError(
        "the checkpoint was saved between micro-batches of one step, on the disks of several "
        "machines. Each rank can load only its own gradients. Load it with as many processes on "
        "the same machines, or save after optimizer.step()",
        error_name::kOtherWorldSize);
  if (window.is_sharded)
    throw CheckpointError(
        "the checkpoint was saved between micro-batches of one step. A sharded model cannot load "
        "the accumulated gradients. Load it without sharding, or save after optimizer.step()",
        error_name::kOtherWorldSize);
}

}  // namespace

StatePart part_to_save(const OpenWindow& window) {
  if (window.is_sharded)
    throw UsageError(
        "save_state() inside an accumulation window of a sharded model: its accumulated gradients "
        "cannot be saved. Save when sync_gradients() is true, after optimizer.step()");
  return {.stem = gradients_stem(window.rank),
          .every_rank = true,
          .state_dict = [window]() -> StateDict {
            const auto counted = window.items.counted();
            return {{"gradients", gradients_of(window.names, window.parameters)},
                    {"num_items", counted ? StateDict(*counted) : StateDict()}};
          },
          .check = nullptr};
}

std::vector<StatePart> parts_to_load(const OpenWindow& window, const Manifest& manifest) {
  const auto saved = ranks_with_gradients(manifest);
  if (saved.empty()) return {};
  require_reachable(window, manifest);
  const double share = static_cast<double>(window.num_ranks) / manifest.num_processes;
  std::vector<StatePart> parts;
  for (const int rank : saved) {
    if (rank % window.num_ranks != window.rank) continue;
    parts.push_back({.stem = gradients_stem(rank),
                     .every_rank = true,
                     .state_dict = nullptr,
                     .check = [window, share](const StateDict& part) {
                       return check_window(window, part, share);
                     }});
  }
  return parts;
}

}  // namespace accelerate
