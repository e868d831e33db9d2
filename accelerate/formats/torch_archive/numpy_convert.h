// The numpy objects that Accelerate's random states and schedulers hold. Part of
// formats/torch_archive.
#pragma once

#include <string>

#include "accelerate/formats/torch_archive/pickle_machine.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate::detail {

/// The bytes behind Python's encode(text, "latin1"), or behind bytes themselves in `text`.
[[nodiscard]] std::string decode_latin1(const PickleNode& text, const PickleNode& codec);

/// Whether a call makes an array.
[[nodiscard]] bool is_numpy_array(const PickleNode& call);
/// All three throw CheckpointError whose message is a clause, also for element types other than
/// bool, integers and floats, and for big-endian ones.
[[nodiscard]] NumpyArray convert_numpy_array(const PickleNode& call);
[[nodiscard]] TorchValue convert_numpy_scalar(const PickleNode& dtype, const PickleNode& bytes);

}  // namespace accelerate::detail
