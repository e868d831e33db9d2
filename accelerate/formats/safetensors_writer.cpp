#include <algorithm>
#include <tuple>
#include <utility>

#include "accelerate/base/utf8.h"
#include "accelerate/formats/safetensors.h"
#include "accelerate/formats/safetensors_header.h"

namespace accelerate {
namespace {

using detail::tensor_label;

// Tensors up to this size are gathered before they are written; larger ones are written from where
// they are. A system call costs about as much as copying this.
constexpr std::size_t kGatherBytes = std::size_t{256} << 10;

[[noreturn]] void refuse(const TensorSpec& spec, const std::string& why) {
  throw UsageError("cannot save " + tensor_label(spec.name) + ": " + why);
}

void check_name(const TensorSpec& spec) {
  if (spec.name == "__metadata__") refuse(spec, "the format keeps this name for itself; rename it");
  if (!is_utf8(spec.name)) refuse(spec, "its name is no UTF-8; rename it");
  if (spec.name.size() > SafetensorsLimits::kNameBytes) {
    refuse(spec, "its name has " + std::to_string(spec.name.size()) + " bytes, at most " +
                     std::to_string(SafetensorsLimits::kNameBytes) + " are allowed");
  }
}

// Returns the tensor's size in bytes.
std::uint64_t check_spec(const TensorSpec& spec) {
  check_name(spec);
  if (spec.shape.size() > SafetensorsLimits::kRank) {
    refuse(spec, "it has " + std::to_string(spec.shape.size()) + " dimensions, at most " +
                     std::to_string(SafetensorsLimits::kRank) + " are allowed");
  }
  const auto size = bytes_of(spec.dtype, spec.shape);
  if (!size) {
    refuse(spec,
           "its shape has a negative dimension, or its size overflows 64 bits or fills no "
           "whole number of bytes");
  }
  return *size;
}

void check_specs(const std::vector<TensorSpec>& specs) {
  if (specs.size() > SafetensorsLimits::kTensors) {
    throw UsageError("cannot save " + std::to_string(specs.size()) +
                     " tensors in one safetensors file, at most " +
                     std::to_string(SafetensorsLimits::kTensors) + " are allowed: use shards");
  }
  std::uint64_t total = 0;
  for (const TensorSpec& spec : specs) {
    if (__builtin_add_overflow(total, check_spec(spec), &total)) {
      refuse(spec, "with the tensors before it the file's size overflows 64 bits");
    }
  }
}

void check_unique(const std::vector<TensorSpec>& specs) {
  std::vector<std::string_view> names;
  for (const TensorSpec& spec : specs) names.push_back(spec.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) {
    throw UsageError("cannot save " + tensor_label(*twice) + " twice: names must be unique");
  }
}

void check_metadata(const SafetensorsMetadata& metadata) {
  for (const auto& [key, value] : metadata) {
    if (is_utf8(key) && is_utf8(value)) continue;
    throw UsageError("the metadata of a safetensors file must be UTF-8, which '" + key +
                     "' or its value is not");
  }
}

bool comes_before(const TensorSpec& left, const TensorSpec& right) {
  return std::tie(right.dtype, left.name) < std::tie(left.dtype, right.name);
}

std::string checked_header(const std::vector<TensorSpec>& specs,
                           const SafetensorsMetadata& metadata) {
  std::string header = detail::safetensors_header_bytes(specs, metadata);
  if (header.size() - 8 > SafetensorsLimits::kHeaderBytes) {
    throw UsageError("the header of a safetensors file would have " +
                     std::to_string(header.size() - 8) + " bytes, at most " +
                     std::to_string(SafetensorsLimits::kHeaderBytes) +
                     " are allowed: shorten the metadata or use shards");
  }
  return header;
}

// Runs one step of writing and says, should it fail, what the file was for.
template <typename Step>
auto saving(const std::filesystem::path& path, Step&& step) {
  try {
    return step();
  } catch (const FileError&) {
    throw_with_context<CheckpointError>("cannot save tensors to '" + path.string() + "'");
  }
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(FileSystem& files, std::filesystem::path path,
                                     std::vector<TensorSpec> specs, SafetensorsWriteOptions options)
    : path_(std::move(path)), specs_(std::move(specs)) {
  check_specs(specs_);
  check_unique(specs_);
  check_metadata(options.metadata);
  std::ranges::sort(specs_, comes_before);
  pending_ = checked_header(specs_, options.metadata);
  file_ = saving(path_, [&] {
    return std::make_unique<AtomicFile>(files, path_, AtomicFileOptions{options.durable});
  });
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (next_ == specs_.size()) {
    throw UsageError("'" + path_.string() + "' has all its " + std::to_string(specs_.size()) +
                     " tensors; there is no place for one more");
  }
  const TensorSpec& spec = specs_[next_];
  const std::uint64_t size = bytes_of(spec.dtype, spec.shape).value();
  if (bytes.size() != size) {
    refuse(spec, "its dtype and shape take " + std::to_string(size) + " bytes, " +
                     std::to_string(bytes.size()) + " were given");
  }
  write(text_of(bytes));
  ++next_;
}

void SafetensorsWriter::write(std::string_view bytes) {
  if (pending_.size() + bytes.size() <= kGatherBytes) {
    pending_ += bytes;
    return;
  }
  flush();
  if (bytes.size() <= kGatherBytes) {
    pending_ = bytes;
  } else {
    saving(path_, [&] { file_->write(bytes); });
  }
}

void SafetensorsWriter::flush() {
  saving(path_, [&] { file_->write(pending_); });
  pending_.clear();
}

void SafetensorsWriter::commit() {
  if (next_ < specs_.size()) {
    throw UsageError("'" + path_.string() + "' cannot be completed: " +
                     tensor_label(specs_[next_].name) + " was announced and not appended");
  }
  flush();
  saving(path_, [&] { file_->commit(); });
}

void write_safetensors(FileSystem& files, const std::filesystem::path& path,
                       const std::vector<StoredTensor>& tensors, SafetensorsWriteOptions options) {
  SafetensorsWriter writer(files, path, {tensors.begin(), tensors.end()}, std::move(options));
  std::map<std::string_view, std::span<const std::byte>> bytes;
  for (const StoredTensor& tensor : tensors) bytes.emplace(tensor.name, tensor.bytes);
  for (const TensorSpec& spec : writer.tensors()) writer.append(bytes.at(spec.name));
  writer.commit();
}

}  // namespace accelerate
