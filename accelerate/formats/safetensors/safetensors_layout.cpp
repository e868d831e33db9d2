#include "accelerate/formats/safetensors/safetensors_layout.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate {
namespace {

using detail::tensor_label;

[[noreturn]] void refuse_to_save(const TensorSpec& spec, const std::string& why) {
  throw UsageError("cannot save " + tensor_label(spec.name) + ": " + why);
}

void check_name(const TensorSpec& spec) {
  if (spec.name == "__metadata__")
    refuse_to_save(spec, "the format keeps this name for itself; rename it");
  if (!is_utf8(spec.name)) refuse_to_save(spec, "its name is not UTF-8; rename it");
  if (spec.name.size() > SafetensorsLimits::kNameBytes) {
    refuse_to_save(spec, "its name has " + std::to_string(spec.name.size()) + " bytes, at most " +
                             std::to_string(SafetensorsLimits::kNameBytes) + " are allowed");
  }
}

// Throws UsageError for a spec that cannot be stored. Returns the tensor's size in bytes.
std::uint64_t check_spec(const TensorSpec& spec) {
  check_name(spec);
  if (spec.shape.size() > SafetensorsLimits::kRank) {
    refuse_to_save(spec, "it has " + std::to_string(spec.shape.size()) + " dimensions, at most " +
                             std::to_string(SafetensorsLimits::kRank) + " are allowed");
  }
  const auto size = bytes_of(spec.dtype, spec.shape);
  if (!size) {
    refuse_to_save(spec,
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
  std::uint64_t total = SafetensorsLimits::kHeaderBytes + 8;
  for (const TensorSpec& spec : specs) {
    if (__builtin_add_overflow(total, check_spec(spec), &total)) {
      refuse_to_save(spec, "with the tensors before it the file's size overflows 64 bits");
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
  if (metadata.size() > SafetensorsLimits::kMetadataKeys) {
    throw UsageError("cannot save metadata of " + std::to_string(metadata.size()) +
                     " keys in a safetensors file; at most " +
                     std::to_string(SafetensorsLimits::kMetadataKeys) + " are allowed");
  }
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
  check_metadata(metadata);
  std::string header = detail::safetensors_header_bytes(specs, metadata);
  if (header.size() - 8 > SafetensorsLimits::kHeaderBytes) {
    throw UsageError("the header of a safetensors file would have " +
                     std::to_string(header.size() - 8) + " bytes, at most " +
                     std::to_string(SafetensorsLimits::kHeaderBytes) +
                     " are allowed: shorten the metadata or use shards");
  }
  return header;
}

}  // namespace

SafetensorsLayout::SafetensorsLayout(std::vector<TensorSpec> specs,
                                     const SafetensorsMetadata& metadata)
    : specs_(std::move(specs)) {
  check_specs(specs_);
  check_unique(specs_);
  std::ranges::sort(specs_, comes_before);
  header_ = checked_header(specs_, metadata);
  file_bytes_ = header_.size();
  for (const TensorSpec& spec : specs_) file_bytes_ += bytes_of(spec.dtype, spec.shape).value();
}

}  // namespace accelerate
