// Upstream's keywords of data parallel training. docs/ddp.md says what each costs.
#pragma once

#include <string>
#include <vector>

#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/parallel/gradients/power_sgd.h"

namespace accelerate {

/// How gradients are compressed before they are sent, or rounded before a hook sees them.
enum class DDPCommunicationHookType { no, fp16, bf16, power_sgd, batched_power_sgd };

/// Upstream's names, order and defaults.
struct DistributedDataParallelKwargs {
  int dim = 0;                          ///< Where one process splits batches over GPUs: only 0.
  bool broadcast_buffers = true;        ///< After each step all ranks have rank 0's buffers.
  double bucket_cap_mb = 25;            ///< Size of a gradient bucket, MiB.
  bool find_unused_parameters = false;  ///< Allow parameters that a loss does not use.
  bool check_reduction = false;  ///< Has no effect, as upstream: reductions are always checked.
  /// true: a gradient that the program keeps beyond its step is overwritten by a later step. false:
  /// it stays, and its bucket gets new memory. Gradients lie in the buckets either way.
  bool gradient_as_bucket_view = false;
  /// true: every step is like the first: the same parameters get gradients, equally often. Allows
  /// unused parameters, and several gradients of one parameter, at no cost after the first step.
  bool static_graph = false;
  DDPCommunicationHookType comm_hook = DDPCommunicationHookType::no;  ///< How gradients travel.
  /// The type to which gradients are rounded before `comm_hook` compresses them: no, fp16 or bf16.
  DDPCommunicationHookType comm_wrapper = DDPCommunicationHookType::no;
  PowerSGDOptions comm_state_option = {};  ///< For power_sgd and batched_power_sgd only.
};

/// Returns the names of the keywords that differ from their defaults, in the order above.
[[nodiscard]] std::vector<std::string> given_keywords(const DistributedDataParallelKwargs& kwargs);

/// Returns the hook that `kwargs` ask for; empty if none. Throws ConfigError for values out of
/// range and for keywords that contradict each other.
[[nodiscard]] CommHook make_comm_hook(const DistributedDataParallelKwargs& kwargs);

/// What a replica does in a group of one.
enum class WhenAlone {
  train,             ///< Only warns when a module is called past its prepared model.
  check_as_a_group,  ///< Refuses what a group would refuse. Costs a copy of the gradients.
};

}  // namespace accelerate
