// Reads the numpy objects in Accelerate's random states and schedulers. Part of
// formats/torch_archive.
#pragma once

#include <string>

#include "accelerate/formats/torch_archive/pickle_machine.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate::detail {

/// Returns the bytes of Python's encode(text, "latin1"): each character of `text` is one byte.
/// Throws CheckpointError for another codec, or a character beyond latin1.
[[nodiscard]] std::string decode_latin1(const PickleNode& text, const PickleNode& codec);

/// Whether a call makes an array.
[[nodiscard]] bool is_numpy_array(const PickleNode& call);
/// Both functions throw CheckpointError whose message is a clause, also for big-endian numbers and
/// for element types other than bool, integers and floats.
[[nodiscard]] NumpyArray convert_numpy_array(const PickleNode& call);
[[nodiscard]] TorchValue convert_numpy_scalar(const PickleNode& dtype, const PickleNode& bytes);

}  // namespace accelerate::detail
