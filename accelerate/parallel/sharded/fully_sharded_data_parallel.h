// Training with a slice of the model on every rank (FSDP, ZeRO). Parameters, gradients and
// optimizer state are divided among the ranks that share a model. Whole parameters exist only while
// the model computes with them. Works for any unmodified module; docs/fsdp.md explains how.
//
// Sources: Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "accelerate/comm/communicator.h"
#include "accelerate/launch/config/fsdp_options.h"
#include "accelerate/parallel/parallel_model.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Divides the parameters of the viewed module among the ranks, and makes its leaves tensors whose
/// memory comes and goes. The model computes on `device`. With sync_module_states all ranks get
/// rank 0's values, and the leaves of other ranks may be on the meta device. [collective] Throws
/// CommError, which lists the first difference by rank; UsageError for parameters that cannot be
/// sharded; ConfigError for settings that do not fit the group or the model.
[[nodiscard]] ParallelModel shard_model(const ModuleView& view,
                                        std::shared_ptr<Communicator> communicator,
                                        const ResolvedFsdpOptions& settings, c10::Device device);

}  // namespace accelerate
