// The tensors of a pickle of torch.save. Part of formats/torch_archive.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/formats/torch_archive/pickle_machine.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate::detail {

/// The bytes of the storage of that name, nullopt when the archive has none.
using FindStorage = std::function<std::optional<std::span<const std::byte>>(std::string_view)>;

/// A tuple of numbers from 0 on, e.g. a shape; `what` stands for it in messages.
[[nodiscard]] std::vector<std::int64_t> sizes_of(const PickleNode& tuple, const char* what);

/// The tensor of _rebuild_tensor_v2 and _v3 with these arguments, as many as they take at least.
/// Both throw CheckpointError whose message is a clause: arguments of the wrong kind, a storage
/// that is missing or of another size, a tensor that leaves it.
[[nodiscard]] TorchTensor convert_tensor(std::span<PickleNode* const> arguments,
                                         const FindStorage& storages);
[[nodiscard]] TorchTensor convert_tensor_v3(std::span<PickleNode* const> arguments,
                                            const FindStorage& storages);

}  // namespace accelerate::detail
