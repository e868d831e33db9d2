// Pickles of the numbers in a checkpoint of save_state, as PyTorch has them. Each function returns
// operations; see pickle_writer.h. Each throws CheckpointError for what Python has not.
#pragma once

#include <string>

#include "accelerate/formats/documents/document.h"

namespace accelerate::detail {

/// `tuples`: lists become tuples. Options in Python have tuples where ours have lists: "betas".
[[nodiscard]] std::string python_value(const Node& node, bool tuples = false);

/// Schedules of PyTorch expect a list of functions, and milestones as counts.
[[nodiscard]] std::string python_schedule(const Node& node);

/// The state of torch.amp.GradScaler.
[[nodiscard]] std::string python_scaler(const Node& node);

/// The entries of a state of DeepSpeed's that are about the loss scale, without a dict around them:
/// its own object, which counts good steps by differences.
[[nodiscard]] std::string deepspeed_scaler(const Node& node);

}  // namespace accelerate::detail
