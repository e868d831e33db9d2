// Writes pickles of protocol 2: each function returns the operations that push one value. Part of
// formats/torch_archive, and of the folders that are written for FSDP of Python.
//
//   pickle(list(text("a") + integer(1)))   // ["a", 1]
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "accelerate/formats/safetensors/tensor_spec.h"

namespace accelerate::detail::pickling {

/// Returns the whole pickle of one value.
[[nodiscard]] std::string pickle(const std::string& value);

[[nodiscard]] std::string none();
[[nodiscard]] std::string boolean(bool value);
[[nodiscard]] std::string integer(std::int64_t value);
[[nodiscard]] std::string real(double value);
[[nodiscard]] std::string text(std::string_view value);
/// `items`: the operations of all items, one after the other.
[[nodiscard]] std::string tuple(const std::string& items);
[[nodiscard]] std::string list(const std::string& items);
/// `entries`: the operations of key, value, key, value, ….
[[nodiscard]] std::string dict(const std::string& entries);
[[nodiscard]] std::string ordered_dict();
/// Adds `entries` to the dict that the operations `target` push.
[[nodiscard]] std::string filled(const std::string& target, const std::string& entries);

/// "torch.FloatStorage" names the class FloatStorage of the module torch.
[[nodiscard]] std::string global(std::string_view name);
/// Calls the global `name` with the arguments that the operations `arguments` push.
[[nodiscard]] std::string call(std::string_view name, const std::string& arguments);
/// An object of the class `name` with the state that the operations `state` push, such as a dict
/// of its attributes.
[[nodiscard]] std::string object(std::string_view name, const std::string& state);

/// A tuple of numbers, and a torch.Size of them.
[[nodiscard]] std::string numbers(std::span<const std::int64_t> values);
[[nodiscard]] std::string torch_size(std::span<const std::int64_t> values);
/// torch.float32, …. Throws CheckpointError if PyTorch lacks the type of `spec`.
[[nodiscard]] std::string torch_dtype(const TensorSpec& spec);
/// A row-major tensor on the CPU, with the storage number `key` of its own. Throws CheckpointError
/// for an element type that PyTorch's own files lack.
[[nodiscard]] std::string tensor(const TensorSpec& spec, std::size_t key);

}  // namespace accelerate::detail::pickling
