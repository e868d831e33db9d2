#include "accelerate/formats/torch_archive/pickle_writer.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string_view>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/torch_names.h"

namespace accelerate::detail {
namespace {

// The operations of pickle's machine, by the names that Python's pickletools gives them.
constexpr std::string_view kProto2 = "\x80\x02", kMark = "(", kTuple = "t", kEmptyTuple = ")",
                           kReduce = "R", kPersistentId = "Q", kSetItems = "u", kFalse = "\x89",
                           kStop = ".", kBinUnicode = "X", kBinInt = "J", kLong1 = "\x8a\x08";

std::string text(std::string_view value) {
  std::string bytes(kBinUnicode);
  append_little_endian(bytes, static_cast<std::uint32_t>(value.size()));
  return bytes.append(value);
}

std::string integer(std::uint64_t value) {
  std::string bytes;
  if (value <= std::numeric_limits<std::int32_t>::max()) {
    bytes = kBinInt;
    append_little_endian(bytes, static_cast<std::uint32_t>(value));
  } else {
    bytes = kLong1;
    append_little_endian(bytes, value);
  }
  return bytes;
}

// "torch.FloatStorage" names the class FloatStorage of the module torch.
std::string global(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  std::string bytes = "c";
  return bytes.append(name.substr(0, dot)).append("\n").append(name.substr(dot + 1)).append("\n");
}

std::string tuple(const std::string& items) {
  return std::string(kMark) + items + std::string(kTuple);
}

std::string ordered_dict() {
  return global("collections.OrderedDict").append(kEmptyTuple).append(kReduce);
}

std::string sizes(std::span<const std::int64_t> values) {
  std::string items;
  for (const std::int64_t value : values) items += integer(static_cast<std::uint64_t>(value));
  return tuple(items);
}

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

// Returns what stands for a storage: torch.load gives it to its reader of the archive.
std::string storage(std::string_view type, std::size_t key, std::uint64_t count) {
  return tuple(text("storage") + global(type) + text(std::to_string(key)) + text("cpu") +
               integer(count))
      .append(kPersistentId);
}

// Types that have no storage of their own lie in bytes, and the tensor names its type.
std::string tensor(const TensorSpec& spec, std::size_t key) {
  const TorchName* typed = name_of(spec.dtype, storage_names());
  const TorchName* type = name_of(spec.dtype, dtype_names());
  if (!typed && !type) {
    throw CheckpointError(tensor_label(spec.name) + " is " + std::string(dtype_name(spec.dtype)) +
                          ", a type that PyTorch's own files lack; write safetensors");
  }
  const std::uint64_t bytes = bytes_of(spec.dtype, spec.shape).value();
  const std::uint64_t count = typed ? bytes / (bits_of(spec.dtype) / 8) : bytes;
  const std::string arguments =
      storage(typed ? typed->global : "torch.storage.UntypedStorage", key, count) + integer(0) +
      sizes(spec.shape) + sizes(strides_of(spec.shape)) + std::string(kFalse) + ordered_dict();
  return global(typed ? "torch._utils._rebuild_tensor_v2" : "torch._utils._rebuild_tensor_v3") +
         tuple(typed ? arguments : arguments + global(type->global)) + std::string(kReduce);
}

void check(const TensorSpec& spec, std::set<std::string_view>& names) {
  const std::string label = tensor_label(spec.name);
  if (!names.insert(spec.name).second) throw UsageError(label + " appears twice");
  if (spec.name.size() > SafetensorsLimits::kNameBytes) {
    throw UsageError(label + ": its name has " + std::to_string(spec.name.size()) +
                     " bytes; allowed are " + std::to_string(SafetensorsLimits::kNameBytes));
  }
  if (!bytes_of(spec.dtype, spec.shape)) throw UsageError(label + ": its shape is not valid");
}

}  // namespace

std::string pickled_state_dict(const std::vector<TensorSpec>& tensors) {
  std::set<std::string_view> names;
  std::string pickle = std::string(kProto2) + ordered_dict() + std::string(kMark);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check(tensors[i], names);
    pickle += text(tensors[i].name) + tensor(tensors[i], i);
  }
  return pickle.append(kSetItems).append(kStop);
}

}  // namespace accelerate::detail
