// Gives the nodes of a pickle of torch.save their meaning. Part of formats/torch_archive.
#pragma once

#include <span>
#include <string_view>

#include "accelerate/formats/torch_archive/pickle_machine.h"
#include "accelerate/formats/torch_archive/torch_tensor.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate::detail {

/// The globals that mean something here, as "module.name", sorted: what read_pickle may let
/// through.
[[nodiscard]] std::span<const std::string_view> torch_globals();
/// Those of TorchScript besides: its classes, and what it writes typed lists with.
[[nodiscard]] std::span<const std::string_view> script_globals();

/// The tree below `root`. Throws CheckpointError whose message is a clause: arguments of the wrong
/// kind, tensors that leave their storage, loops and trees beyond TorchArchiveLimits.
[[nodiscard]] TorchValue convert_pickle(const PickleNode& root, const FindStorage& storages);

}  // namespace accelerate::detail
