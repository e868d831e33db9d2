#include "accelerate/formats/torch_archive/torch_archive_writer.h"

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/pickle_writer.h"

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
  std::string entries;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check(tensors[i], names);
    entries += pickling::text(tensors[i].name) + pickling::tensor(tensors[i], i);
  }
  return pickling::pickle(pickling::filled(pickling::ordered_dict(), entries));
}

}  // namespace accelerate::detail
