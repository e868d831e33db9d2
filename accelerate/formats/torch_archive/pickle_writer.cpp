#include "accelerate/formats/torch_archive/pickle_writer.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate::detail::pickling {
namespace {

// The operations of pickle's machine, by the names that Python's pickletools gives them.
constexpr std::string_view kProto2 = "\x80\x02", kMark = "(", kTuple = "t", kEmptyTuple = ")",
                           kReduce = "R", kPersistentId = "Q", kSetItems = "u", kFalse = "\x89",
                           kTrue = "\x88", kNone = "N", kStop = ".", kBinUnicode = "X",
                           kBinInt = "J", kLong1 = "\x8a\x08", kBinFloat = "G", kEmptyList = "]",
                           kAppends = "e", kEmptyDict = "}", kNewObject = "\x81", kBuild = "b";

// Returns the strides of a row-major tensor, in elements. PyTorch counts an empty dimension as one.
std::vector<std::int64_t> strides_of(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

const TorchName* name_of(DType dtype, std::span<const TorchName> names) {
  const auto found = std::ranges::find(names, dtype, &TorchName::dtype);
  return found == names.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_dtype(const TensorSpec& spec) {
  throw CheckpointError(tensor_label(spec.name) + " is " + std::string(dtype_name(spec.dtype)) +
                        ", a type that PyTorch's own files lack; write safetensors");
}

// Returns what stands for a storage: torch.load gives it to its reader of the archive.
std::string storage(std::string_view type, std::size_t key, std::uint64_t count) {
  return tuple(text("storage") + global(type) + text(std::to_string(key)) + text("cpu") +
               integer(static_cast<std::int64_t>(count)))
      .append(kPersistentId);
}

}  // namespace

std::string pickle(const std::string& value) {
  return std::string(kProto2) + value + std::string(kStop);
}

std::string none() {
  return std::string(kNone);
}

std::string boolean(bool value) {
  return std::string(value ? kTrue : kFalse);
}

std::string integer(std::int64_t value) {
  std::string bytes;
  if (value >= std::numeric_limits<std::int32_t>::min() &&
      value <= std::numeric_limits<std::int32_t>::max()) {
    bytes = kBinInt;
    append_little_endian(bytes, static_cast<std::uint32_t>(value));
  } else {
    bytes = kLong1;
    append_little_endian(bytes, static_cast<std::uint64_t>(value));
  }
  return bytes;
}

std::string real(double value) {
  std::string bytes;
  append_little_endian(bytes, std::bit_cast<std::uint64_t>(value));
  std::ranges::reverse(bytes);
  return std::string(kBinFloat) + bytes;
}

std::string text(std::string_view value) {
  std::string bytes(kBinUnicode);
  append_little_endian(bytes, static_cast<std::uint32_t>(value.size()));
  return bytes.append(value);
}

std::string tuple(const std::string& items) {
  return std::string(kMark) + items + std::string(kTuple);
}

std::string list(const std::string& items) {
  return std::string(kEmptyList).append(kMark) + items + std::string(kAppends);
}

std::string dict(const std::string& entries) {
  return filled(std::string(kEmptyDict), entries);
}

std::string ordered_dict() {
  return call("collections.OrderedDict", std::string(kEmptyTuple));
}

std::string filled(const std::string& target, const std::string& entries) {
  return target + std::string(kMark) + entries + std::string(kSetItems);
}

std::string global(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  std::string bytes = "c";
  return bytes.append(name.substr(0, dot)).append("\n").append(name.substr(dot + 1)).append("\n");
}

std::string call(std::string_view name, const std::string& arguments) {
  return global(name) + arguments + std::string(kReduce);
}

std::string object(std::string_view name, const std::string& state) {
  return global(name).append(kEmptyTuple).append(kNewObject) + state + std::string(kBuild);
}

std::string numbers(std::span<const std::int64_t> values) {
  std::string items;
  for (const std::int64_t value : values) items += integer(value);
  return tuple(items);
}

std::string torch_size(std::span<const std::int64_t> values) {
  return call("torch.Size", tuple(numbers(values)));
}

std::string torch_dtype(const TensorSpec& spec) {
  const TorchName* type = name_of(spec.dtype, dtype_names());
  if (type == nullptr) refuse_dtype(spec);
  return global(type->global);
}

// Types that have no storage of their own lie in bytes, and the tensor names its type.
std::string tensor(const TensorSpec& spec, std::size_t key) {
  const TorchName* typed = name_of(spec.dtype, storage_names());
  if (typed == nullptr && name_of(spec.dtype, dtype_names()) == nullptr) refuse_dtype(spec);
  const std::uint64_t bytes = bytes_of(spec.dtype, spec.shape).value();
  const std::uint64_t count = typed != nullptr ? bytes / (bits_of(spec.dtype) / 8) : bytes;
  const std::string arguments =
      storage(typed != nullptr ? typed->global : "torch.storage.UntypedStorage", key, count) +
      integer(0) + numbers(spec.shape) + numbers(strides_of(spec.shape)) + boolean(false) +
      ordered_dict();
  if (typed != nullptr) return call("torch._utils._rebuild_tensor_v2", tuple(arguments));
  return call("torch._utils._rebuild_tensor_v3", tuple(arguments + torch_dtype(spec)));
}

}  // namespace accelerate::detail::pickling
