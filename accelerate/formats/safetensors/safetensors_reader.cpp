#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/safetensors/safetensors.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate {
namespace {

using detail::HeaderEntry;
using detail::SafetensorsHeader;
using detail::shape_text;
using detail::tensor_label;

constexpr std::size_t kLengthBytes = 8;

std::string bytes(std::uint64_t count) {
  return std::to_string(count) + " bytes";
}

struct Impostor {
  std::string_view start;
  std::string_view what;
};

// Files that are often found in place of a safetensors file, and what to do about each.
constexpr std::array kImpostors = {
    Impostor{"version https://git-lfs",
             "it is a Git LFS pointer: run `git lfs pull` to fetch the file it stands for"},
    Impostor{"<!DOCTYPE", "it is an HTML page, perhaps an error page saved by a download"},
    Impostor{"<!doctype", "it is an HTML page, perhaps an error page saved by a download"},
    Impostor{"<html", "it is an HTML page, perhaps an error page saved by a download"},
    Impostor{"<?xml", "it is an XML document, perhaps an error message saved by a download"},
    Impostor{"PK\x03\x04", "it is a zip archive, as torch.save writes: convert it to safetensors"},
    Impostor{"\x80\x02", "it is a Python pickle, which is never read: convert it to safetensors"},
    Impostor{"\x1f\x8b", "it is compressed with gzip: unpack it first"},
    Impostor{"GGUF", "it is a GGUF file: from_pretrained opens it as .gguf_file"},
    Impostor{"{", "it is JSON, perhaps the index of a model whose weights lie in other files"},
};

void refuse_impostors(std::string_view text) {
  for (const Impostor& impostor : kImpostors) {
    if (text.starts_with(impostor.start))
      throw CheckpointError(std::string(impostor.what), error_name::kWeightsDamaged);
  }
}

std::uint64_t read_length(std::string_view text) {
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(text[i]);
  }
  return length;
}

// Checks the length before it suspects an impostor: a valid file may by chance begin like one.
std::string_view header_text(std::string_view text) {
  if (text.empty())
    throw CheckpointError("it is empty: was its writer or download interrupted?",
                          error_name::kWeightsDamaged);
  const std::uint64_t length = text.size() < kLengthBytes ? ~0ULL : read_length(text);
  if (length > SafetensorsLimits::kHeaderBytes || length > text.size() - kLengthBytes) {
    refuse_impostors(text);
  }
  if (text.size() < kLengthBytes) {
    throw CheckpointError("it has " + bytes(text.size()) +
                              ", fewer than the 8 that hold the header's length; it is cut short",
                          error_name::kWeightsDamaged);
  }
  if (length > SafetensorsLimits::kHeaderBytes) {
    throw CheckpointError("its first 8 bytes give a header of " + bytes(length) + ", at most " +
                          std::to_string(SafetensorsLimits::kHeaderBytes) +
                          " are allowed; it is not a safetensors file");
  }
  if (length > text.size() - kLengthBytes) {
    throw CheckpointError(
        "it has " + bytes(text.size()) + ", its header promises " + bytes(kLengthBytes + length) +
            " before any data; it is cut short, perhaps by an interrupted download",
        error_name::kWeightsDamaged);
  }
  return text.substr(kLengthBytes, length);
}

std::string_view without_padding(std::string_view header) {
  if (!header.starts_with('{')) {
    throw CheckpointError("its header must begin with '{'; it is not a safetensors file");
  }
  const std::string_view json = header.substr(0, header.find_last_not_of(' ') + 1);
  if (!json.ends_with('}')) {
    throw CheckpointError("its header must end with '}' and then at most spaces");
  }
  return json;
}

std::string offsets_text(const HeaderEntry& entry) {
  return "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
}

void check_size(const HeaderEntry& entry) {
  const std::string label = tensor_label(entry.name);
  if (entry.end < entry.begin) {
    throw CheckpointError(label + ": data_offsets " + offsets_text(entry) +
                          " end before they begin");
  }
  const auto needed = bytes_of(entry.dtype, entry.shape);
  const std::string spec =
      std::string(dtype_name(entry.dtype)) + " of shape " + shape_text(entry.shape);
  if (!needed) {
    throw CheckpointError(label + ": " + spec +
                          " has a size that overflows 64 bits or fills no whole number of bytes");
  }
  if (*needed != entry.end - entry.begin) {
    throw CheckpointError(label + ": " + spec + " takes " + bytes(*needed) + ", data_offsets " +
                          offsets_text(entry) + " give " + bytes(entry.end - entry.begin));
  }
}

// Refuses holes and overlaps: with them, two readers could read two different files.
void check_follows(const HeaderEntry& entry, std::uint64_t previous_end) {
  if (entry.begin == previous_end) return;
  throw CheckpointError(tensor_label(entry.name) + ": data_offsets " + offsets_text(entry) +
                        (entry.begin < previous_end ? " overlap" : " leave a hole after") +
                        " the data before, which ends at " + std::to_string(previous_end));
}

void check_layout(std::vector<HeaderEntry>& entries, std::uint64_t data_bytes) {
  std::ranges::stable_sort(
      entries, {}, [](const HeaderEntry& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t end = 0;
  for (const HeaderEntry& entry : entries) {
    check_size(entry);
    check_follows(entry, end);
    end = entry.end;
  }
  if (end > data_bytes) {
    throw CheckpointError("its header promises " + bytes(end) + " of tensors, the file has " +
                              std::to_string(data_bytes) +
                              "; it is cut short, perhaps by an interrupted download",
                          error_name::kWeightsDamaged);
  }
  if (end < data_bytes) {
    throw CheckpointError(bytes(data_bytes - end) + " follow the last tensor, none are allowed");
  }
}

struct Checked {
  SafetensorsHeader header;
  std::span<const std::byte> data;
};

Checked check(const FileContent& content) {
  const std::string_view text = header_text(detail::byte_text(content.bytes()));
  Checked checked{detail::parse_safetensors_header(without_padding(text)),
                  content.bytes().subspan(kLengthBytes + text.size())};
  check_layout(checked.header.tensors, checked.data.size());
  return checked;
}

std::vector<StoredTensor> stored(std::vector<HeaderEntry>&& entries,
                                 std::span<const std::byte> data) {
  std::vector<StoredTensor> tensors;
  tensors.reserve(entries.size());
  for (HeaderEntry& entry : entries) {
    const auto place = data.subspan(entry.begin, entry.end - entry.begin);
    tensors.push_back({std::move(static_cast<TensorSpec&>(entry)), place});
  }
  return tensors;
}

std::shared_ptr<const FileContent> map_file(FileSystem& files, const std::filesystem::path& path) {
  try {
    return files.map(path);
  } catch (const FileError&) {
    throw_with_context<CheckpointError>("cannot load tensors from '" + path.string() + "'");
  }
}

}  // namespace

bool StoredTensor::aligned() const {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment_of(dtype) == 0;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, FileSystem& files) {
  SafetensorsFile file;
  file.path_ = path;
  file.content_ = map_file(files, path);
  try {
    Checked checked = check(*file.content_);
    file.metadata_ = std::move(checked.header.metadata);
    file.tensors_ = stored(std::move(checked.header.tensors), checked.data);
  } catch (const CheckpointError& error) {
    throw CheckpointError("cannot load tensors from '" + path.string() + "': " + error.what());
  }
  file.by_name_.resize(file.tensors_.size());
  std::iota(file.by_name_.begin(), file.by_name_.end(), 0U);
  std::ranges::sort(file.by_name_, {},
                    [&](std::uint32_t i) -> const std::string& { return file.tensors_[i].name; });
  return file;
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto name_at = [this](std::uint32_t i) -> std::string_view { return tensors_[i].name; };
  const auto place = std::ranges::lower_bound(by_name_, name, {}, name_at);
  if (place == by_name_.end() || name_at(*place) != name) return nullptr;
  return &tensors_[*place];
}

const StoredTensor& SafetensorsFile::at(std::string_view name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  for (const StoredTensor& tensor : tensors_) names.push_back(tensor.name);
  throw CheckpointError("'" + path_.string() + "' has no " + tensor_label(name) + " among its " +
                        std::to_string(names.size()) + "." + did_you_mean(name, names));
}

}  // namespace accelerate
