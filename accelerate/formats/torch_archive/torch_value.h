// What a file of torch.save holds, as plain data: numbers, text, containers, and tensors that point
// into the file. A tree: what Python shared is here twice, except for the bytes of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "accelerate/formats/safetensors/byte_stream.h"
#include "accelerate/formats/safetensors/dtype.h"

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

/// A dict, OrderedDict or Counter, in the order of the file; the last of equal keys counts in
/// Python.
struct TorchDict {
  std::vector<TorchEntry> entries;
};

/// An object of TorchScript, most often a module: what its attributes hold, by their names, in the
/// order of the file. Its class and its code are not read.
struct TorchObject {
  std::vector<TorchEntry> attributes;
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
  /// From its first element to the end of its last; the elements between may be another tensor's.
  std::span<const std::byte> bytes;
  std::string storage;               ///< Tensors of one storage share memory; its name in the file.
  std::uint64_t storage_offset = 0;  ///< Of the first element in the storage, in elements.
  std::uint64_t storage_bytes = 0;   ///< Of the whole storage.
  std::string device = "cpu";        ///< Where it was when it was saved.
  bool requires_grad = false;
  bool is_parameter = false;

  /// Whether the elements follow each other in row-major order.
  [[nodiscard]] bool contiguous() const;
  /// Bytes of all elements. They may be any number of times what the file has: a stride of 0
  /// repeats an element.
  [[nodiscard]] std::uint64_t size_bytes() const;
  /// Whether the elements may be read in place; else copy them with memcpy first.
  [[nodiscard]] bool aligned() const;
  /// The elements one after the other, row-major, into `out`, which must have exactly their size.
  /// Throws UsageError when it has not. Cost: one memcpy when contiguous, else one an element.
  void copy_to(std::span<std::byte> out) const;
  /// The same handed to `sink`: all at once when contiguous, else in pieces of up to 1 MiB.
  void stream_to(const ByteSink& sink) const;
};

/// A numpy.ndarray of numbers.
struct NumpyArray {
  std::string dtype;  ///< As numpy writes it: "<u4", "|b1", "<f8". Byte order always little.
  std::vector<std::int64_t> shape;
  bool fortran_order = false;  ///< Column-major.
  std::string bytes;
};

/// One value. Numpy's scalars have become bool, integer or double.
struct TorchValue {
  using Content = std::variant<TorchNone, bool, std::int64_t, TorchBigInteger, double, std::string,
                               TorchBytes, TorchList, TorchTuple, TorchSet, TorchDict, TorchObject,
                               TorchSize, TorchDtype, TorchDevice, TorchTensor, NumpyArray>;

  Content content;

  /// The content if it is a T, else nullptr.
  template <typename T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&content);
  }
  /// The value below a key of a dict, the last if there are several; nullptr when there is none or
  /// this is no dict.
  [[nodiscard]] const TorchValue* find(std::string_view key) const;
  [[nodiscard]] const TorchValue* find(std::int64_t key) const;
  /// The items of a list or tuple; nothing of anything else.
  [[nodiscard]] std::span<const TorchValue> items() const;
  /// "a dict of 3 entries", "a tensor F32 [2, 3]", for messages.
  [[nodiscard]] std::string describe() const;
};

/// One entry of a dict.
struct TorchEntry {
  TorchValue key, value;
};

}  // namespace accelerate
