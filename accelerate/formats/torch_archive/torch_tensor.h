// Reads the tensors of a pickle of torch.save. Part of formats/torch_archive.
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

/// Returns the bytes of the storage with this name; nullopt if the archive has none.
using FindStorage = std::function<std::optional<std::span<const std::byte>>(std::string_view)>;

/// Reads a tuple of non-negative numbers, such as a shape. `what` begins the error message.
[[nodiscard]] std::vector<std::int64_t> sizes_of(const PickleNode& tuple, const char* what);

/// Reads the tensor that _rebuild_tensor_v2 or _v3 makes from these arguments. The caller has
/// checked that there are enough. Both functions throw CheckpointError, whose message is a clause,
/// for arguments of the wrong kind, a storage that is missing or of another size, and a tensor that
/// leaves its storage.
[[nodiscard]] TorchTensor convert_tensor(std::span<PickleNode* const> arguments,
                                         const FindStorage& storages);
[[nodiscard]] TorchTensor convert_tensor_v3(std::span<PickleNode* const> arguments,
                                            const FindStorage& storages);

}  // namespace accelerate::detail
