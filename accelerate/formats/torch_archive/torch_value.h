// The content of a file of torch.save as plain data: numbers, text, containers, and tensors that
// point into the file. It is a tree: a value that Python shared appears twice, but the bytes of
// tensors are shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "accelerate/formats/safetensors/byte_stream.h"
#include "accelerate/formats/safetensors/dtype.h"

namespace accelerate::detail {

// The names of LibTorch's element types in pickles. Part of formats/torch_archive.

struct TorchName {
  std::string_view global;     ///< "torch.FloatStorage", "torch.float32".
  std::optional<DType> dtype;  ///< nullopt if our formats have no such type.
};

/// Storages that imply their element type.
[[nodiscard]] std::span<const TorchName> storage_names();
/// torch.dtype objects.
[[nodiscard]] std::span<const TorchName> dtype_names();

}  // namespace accelerate::detail

namespace accelerate {

struct TorchValue;
struct TorchEntry;

/// Python's None.
struct TorchNone {};

/// An integer beyond 64 bits, as Python's int.to_bytes(…, "little", signed=True) gives it.
struct TorchBigInteger {
  std::string bytes;
};

struct TorchBytes {
  std::string bytes;
};

struct TorchList {
  std::vector<TorchValue> items;
};

struct TorchTuple {
  std::vector<TorchValue> items;
};

struct TorchSet {
  std::vector<TorchValue> items;  ///< In the order of the file.
};

/// A dict, OrderedDict or Counter, in the order of the file. Of equal keys the last counts, as in
/// Python.
struct TorchDict {
  std::vector<TorchEntry> entries;
};

/// An object: its attributes by name, in the order of the file. Objects of TorchScript are most
/// often modules; their class and code are not read. Objects of a Python class are read if the
/// reader named the class; nothing of the class is executed.
struct TorchObject {
  std::vector<TorchEntry> attributes;
  std::string class_name;             ///< "module.Class"; "" for TorchScript.
  std::vector<TorchValue> arguments;  ///< What Python gives the class to make the object.
};

/// torch.Size.
struct TorchSize {
  std::vector<std::int64_t> sizes;
};

/// torch.dtype: "float32", "bfloat16", ….
struct TorchDtype {
  std::string name;
};

/// torch.device: "cpu", "cuda:1".
struct TorchDevice {
  std::string name;
};

/// A torch.Tensor or torch.nn.Parameter.
struct TorchTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< In elements, none negative.
  /// From the tensor's first element to the end of its last; elements in between may belong to
  /// other tensors.
  std::span<const std::byte> bytes;
  std::string storage;               ///< Name in the file; equal for shared memory.
  std::uint64_t storage_offset = 0;  ///< Of the first element, in elements.
  std::uint64_t storage_bytes = 0;   ///< Size of the whole storage.
  std::string device = "cpu";        ///< Device from which it was saved.
  bool requires_grad = false;
  bool is_parameter = false;

  /// Whether the elements follow each other in row-major order.
  [[nodiscard]] bool contiguous() const;
  /// Returns the bytes of all elements. They may be many times the bytes in the file, because a
  /// stride of 0 repeats an element.
  [[nodiscard]] std::uint64_t size_bytes() const;
  /// Whether the elements may be read in place. If not, copy them with memcpy first.
  [[nodiscard]] bool aligned() const;
  /// Copies the elements, row-major, into `out`, which must have exactly size_bytes() bytes. Throws
  /// UsageError otherwise. Cost: one memcpy if contiguous, else one an element.
  void copy_to(std::span<std::byte> out) const;
  /// Hands the elements to `sink`, row-major: in one piece if contiguous, else in pieces of up to 1
  /// MiB.
  void stream_to(const ByteSink& sink) const;
};

/// A part of a tensor, which begins at `offsets` in the whole.
struct TorchShard {
  std::vector<std::int64_t> offsets;
  TorchTensor tensor;
};

/// A tensor that is spread over several files, of which this file has some parts or none: a
/// ShardedTensor or DTensor of PyTorch.
struct TorchShards {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape = {};  ///< Of the whole tensor.
  std::vector<TorchShard> parts = {};    ///< They lie inside the whole, and have its dtype.
};

/// A numpy.ndarray of numbers.
struct NumpyArray {
  std::string dtype;  ///< In numpy's notation: "<u4", "|b1", "<f8". Always little-endian.
  std::vector<std::int64_t> shape;
  bool fortran_order = false;  ///< Column-major.
  std::string bytes;
};

/// One value. Numpy's scalars become bool, integer or double.
struct TorchValue {
  using Content =
      std::variant<TorchNone, bool, std::int64_t, TorchBigInteger, double, std::string, TorchBytes,
                   TorchList, TorchTuple, TorchSet, TorchDict, TorchObject, TorchSize, TorchDtype,
                   TorchDevice, TorchTensor, TorchShards, NumpyArray>;

  Content content;

  /// Returns the content if it is a T, else nullptr.
  template <typename T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&content);
  }
  /// Returns the value below a key of a dict, the last one if there are several. Returns nullptr if
  /// there is none or this is not a dict.
  [[nodiscard]] const TorchValue* find(std::string_view key) const;
  [[nodiscard]] const TorchValue* find(std::int64_t key) const;
  /// Returns the attribute of an object; nullptr if there is none or this is no object.
  [[nodiscard]] const TorchValue* attribute(std::string_view name) const;
  /// Returns the items of a list or tuple; empty for anything else.
  [[nodiscard]] std::span<const TorchValue> items() const;
  /// Returns a description for messages: "a dict of 3 items", "a tensor F32 [2, 3]".
  [[nodiscard]] std::string describe() const;
};

/// One entry of a dict.
struct TorchEntry {
  TorchValue key, value;
};

}  // namespace accelerate
