// What files of torch.save hold, as LibTorch's tensors and as states.
#pragma once

#include <memory>
#include <string>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// The tensor on the CPU, without a copy where its elements are row-major and aligned: it lies in
/// the mapped file, which it keeps open, and is to be read only. Throws CheckpointError for a type
/// of elements that LibTorch lacks. Cost: none, else one copy of all elements, which a small file
/// may repeat without bound: compare the shape with what is expected first.
[[nodiscard]] at::Tensor tensor_view(const TorchTensor& stored,
                                     const std::shared_ptr<const FileContent>& content);

/// The tensor's dtype and shape on the meta device. Throws as tensor_view. Cost: no data is read.
[[nodiscard]] at::Tensor outline_of(const TorchTensor& stored);

/// The value as a state: numbers, text, None, tensors (views), lists, tuples and torch.Size as
/// lists, dicts as dictionaries, whole numbers as keys in decimal. `place` names it in messages,
/// "scheduler.bin". Throws CheckpointError, with the place and what is there, for all else: bytes,
/// sets, integers beyond 64 bits, types, devices, numpy arrays, other keys, and tensors that
/// take together more than 64 KiB and eight times what the file has of them, since they repeat it.
[[nodiscard]] StateDict state_of(const TorchValue& value,
                                 const std::shared_ptr<const FileContent>& content,
                                 const std::string& place);

}  // namespace accelerate
