#include "accelerate/formats/torch_archive/torch_archive_writer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate {
namespace {

using detail::ZipItem;
using detail::ZipLayout;

// What torch.save writes beside the pickle and the storages.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kBeforeStorages = {
    {{".format_version", "1"}, {".storage_alignment", "64"}, {"byteorder", "little"}}};
constexpr std::pair<std::string_view, std::string_view> kVersion = {"version", "3\n"};

// All entries lie in one folder, which torch.save names after the file.
ZipLayout layout_of(const std::string& folder, const std::vector<TensorSpec>& specs,
                    const std::string& pickle) {
  std::vector<ZipItem> items = {{folder + "/data.pkl", pickle.size()}};
  for (const auto& [name, data] : kBeforeStorages)
    items.push_back({folder + "/" + std::string(name), data.size()});
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::uint64_t size = bytes_of(specs[i].dtype, specs[i].shape).value();
    items.push_back({folder + "/data/" + std::to_string(i), size});
  }
  items.push_back({folder + "/" + std::string(kVersion.first), kVersion.second.size()});
  return ZipLayout(std::move(items));
}

}  // namespace

TorchArchiveWriter::TorchArchiveWriter(FileSystem& files, const std::filesystem::path& path,
                                       std::vector<TensorSpec> specs, AtomicFileOptions options)
    : TorchArchiveWriter(files, path, specs, detail::pickled_state_dict(specs), options) {}

TorchArchiveWriter::TorchArchiveWriter(FileSystem& files, const std::filesystem::path& path,
                                       const std::vector<TensorSpec>& specs,
                                       const std::string& pickle, AtomicFileOptions options)
    : layout_(layout_of(path.stem().string(), specs, pickle)),
      file_(files, path, specs, layout_.file_bytes(), options) {
  append_entry(pickle);
  for (const auto& [name, data] : kBeforeStorages) append_entry(data);
  finish_if_complete();
}

void TorchArchiveWriter::append_entry(std::string_view data) {
  file_.append(layout_.header(crcs_.size()));
  file_.append(data);
  const std::uint32_t crc = crc32(data);
  file_.append(layout_.trailer(crcs_.size(), crc));
  crcs_.push_back(crc);
}

void TorchArchiveWriter::append(const ByteSource& source) {
  std::uint32_t crc = 0;
  if (!file_.has_all()) file_.append(layout_.header(crcs_.size()));
  file_.append_tensor(source, [&](std::span<const std::byte> piece) {
    crc = crc32(detail::byte_text(piece), crc);
  });
  file_.append(layout_.trailer(crcs_.size(), crc));
  crcs_.push_back(crc);
  finish_if_complete();
}

void TorchArchiveWriter::finish_if_complete() {
  if (!file_.has_all()) return;
  append_entry(kVersion.second);
  file_.append(layout_.directory(crcs_));
  file_.finish();  // Frees the buffers before commit().
}

void TorchArchiveWriter::commit() {
  file_.commit();
}

}  // namespace accelerate

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
