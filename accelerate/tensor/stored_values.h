// Converts the content of torch.save files to LibTorch's tensors and to states.
#pragma once

#include <memory>
#include <string>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// Returns the tensor on the CPU. If its elements are row-major and aligned, it is not copied: it
/// lies in the mapped file, which it keeps open, and is read-only. Throws CheckpointError for an
/// element type that LibTorch lacks. Cost: nothing, or one copy of all elements. A small file may
/// repeat elements without bound, so compare the shape with the expected shape first.
[[nodiscard]] at::Tensor tensor_view(const TorchTensor& stored,
                                     const std::shared_ptr<const FileContent>& content);

/// Returns the tensor's dtype and shape, on the meta device. Throws as tensor_view. Reads no data.
[[nodiscard]] at::Tensor outline_of(const TorchTensor& stored);

/// Returns the value as a state. Supported are numbers, text, None, tensors (views), lists, and
/// dicts whose keys are texts or whole numbers. Tuples and torch.Size become lists; whole numbers
/// as keys become decimal texts. `place` names the value in messages, e.g. "scheduler.bin". Throws
/// CheckpointError, with the place and the value found, for anything else: bytes, sets, integers
/// beyond 64 bits, types, devices, numpy arrays, other keys. Also throws for tensors that repeat
/// stored elements too often: together they may take 64 KiB plus eight times their bytes in the
/// file.
[[nodiscard]] StateDict state_of(const TorchValue& value,
                                 const std::shared_ptr<const FileContent>& content,
                                 const std::string& place);

}  // namespace accelerate
