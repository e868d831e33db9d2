// Upstream's keywords of data parallel training. docs/ddp.md says what each costs.
#pragma once

#include <string>
#include <vector>

#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/parallel/gradients/power_sgd.h"

namespace accelerate {

/// What is sent of gradients, or what they are rounded to before a hook sees them.
enum class DDPCommunicationHookType { no, fp16, bf16, power_sgd, batched_power_sgd };

/// Upstream's names, order and defaults.
struct DistributedDataParallelKwargs {
  int dim = 0;                          ///< Of batches that one process splits over GPUs: only 0.
  bool broadcast_buffers = true;        ///< After each step everyone has rank 0's buffers.
  double bucket_cap_mb = 25;            ///< Size of a gradient bucket, MiB.
  bool find_unused_parameters = false;  ///< Allow parameters that a loss does not use.
  bool check_reduction = false;  ///< Has no effect, as upstream: reductions are always checked.
  /// true: a gradient kept beyond its step is overwritten by a later one. false: it stays, and its
  /// bucket gets new memory. Gradients lie in the buckets either way.
  bool gradient_as_bucket_view = false;
  /// Every step is like the first: the same parameters get gradients, equally often. Allows unused
  /// parameters, and several gradients of one parameter, at no cost after the first step.
  bool static_graph = false;
  DDPCommunicationHookType comm_hook = DDPCommunicationHookType::no;  ///< How gradients travel.
  /// no, fp16 or bf16: what gradients are rounded to before `comm_hook` compresses them.
  DDPCommunicationHookType comm_wrapper = DDPCommunicationHookType::no;
  PowerSGDOptions comm_state_option = {};  ///< For power_sgd and batched_power_sgd only.
};

/// The names of the keywords that differ from their defaults, in the order above.
[[nodiscard]] std::vector<std::string> given_keywords(const DistributedDataParallelKwargs& kwargs);

/// The hook that `kwargs` ask for; empty for none. Throws ConfigError for values out of range and
/// for keywords that contradict one another.
[[nodiscard]] CommHook make_comm_hook(const DistributedDataParallelKwargs& kwargs);

}  // namespace accelerate
