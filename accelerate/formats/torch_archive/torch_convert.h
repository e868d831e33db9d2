// Turns the nodes of a pickle of torch.save into values. Part of formats/torch_archive.
#pragma once

#include <span>
#include <string_view>

#include "accelerate/formats/torch_archive/pickle_machine.h"
#include "accelerate/formats/torch_archive/torch_tensor.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate::detail {

/// Returns the globals that read_pickle may allow because they have a meaning here, as
/// "module.name", sorted.
[[nodiscard]] std::span<const std::string_view> torch_globals();
/// Returns torch_globals() and the globals of TorchScript: its classes, and the functions for typed
/// lists.
[[nodiscard]] std::span<const std::string_view> script_globals();

/// Returns the tree below `root`. Throws CheckpointError, whose message is a clause, for arguments
/// of the wrong kind, tensors that leave their storage, loops, and trees beyond TorchArchiveLimits.
[[nodiscard]] TorchValue convert_pickle(const PickleNode& root, const FindStorage& storages);

}  // namespace accelerate::detail
