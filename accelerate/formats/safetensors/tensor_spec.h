// What the header of a safetensors file has: the specs of its tensors and metadata. And its limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "accelerate/formats/safetensors/dtype.h"

namespace accelerate {

/// Our limits for a header. Files beyond them are neither read nor written.
struct SafetensorsLimits {
  static constexpr std::uint64_t kHeaderBytes = 100'000'000;  ///< The reference reader's limit.
  static constexpr std::size_t kTensors = 1'000'000;
  static constexpr std::size_t kMetadataKeys = 100'000;
  static constexpr std::size_t kNameBytes = 4096;
  static constexpr std::size_t kRank = 32;
};

/// A tensor's name, element type and shape.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  ///< {} for a scalar; a dimension may be 0.
};

using SafetensorsMetadata = std::map<std::string, std::string>;

}  // namespace accelerate
