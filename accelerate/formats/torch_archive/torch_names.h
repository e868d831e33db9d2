// The names of LibTorch's element types in pickles. Part of formats/torch_archive.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "accelerate/formats/safetensors/dtype.h"

namespace accelerate::detail {

struct TorchName {
  std::string_view global;     ///< "torch.FloatStorage", "torch.float32".
  std::optional<DType> dtype;  ///< nullopt if our formats have no such type.
};

/// Storages that imply their element type.
[[nodiscard]] std::span<const TorchName> storage_names();
/// torch.dtype objects.
[[nodiscard]] std::span<const TorchName> dtype_names();

}  // namespace accelerate::detail
