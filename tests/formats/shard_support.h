// Shards made by hand, for the tests of catalogues and merging.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/formats/safetensors/safetensors.h"
#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/shards/shard_files.h"

namespace accelerate::testing {

/// Tensor number k is the bytes 7 k, 7 k + 1, ….
inline std::vector<std::byte> counted(std::uint64_t size, std::size_t k) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((7 * k + i) & 0xff);
  return bytes;
}

inline std::vector<std::byte> counted(const TensorSpec& spec, std::size_t k) {
  return counted(bytes_of(spec.dtype, spec.shape).value(), k);
}

/// Writes the parts that rank `rank` has of tensors, whose bytes are in `wholes` by name.
inline std::vector<std::filesystem::path> write_parts(
    const std::filesystem::path& folder, const std::string& stem, std::size_t rank,
    const std::vector<TensorPart>& parts,
    const std::map<std::string, std::vector<std::byte>>& wholes) {
  std::vector<std::filesystem::path> paths;
  for (const auto& shard : plan_shard_files(stem, rank, parts)) {
    std::vector<std::vector<std::byte>> data;
    for (const std::size_t i : shard.parts) {
      const SliceRuns runs(parts[i], parts[i].tile.ranges());
      read_slice(runs, wholes.at(parts[i].name), data.emplace_back(runs.total_bytes()));
    }
    std::vector<StoredTensor> tensors;
    for (std::size_t i = 0; i < shard.specs.size(); ++i)
      tensors.push_back({shard.specs[i], data[i]});
    paths.push_back(folder / shard.file_name);
    write_safetensors(real_file_system(), paths.back(), tensors, {.metadata = shard.metadata});
  }
  return paths;
}

inline std::vector<std::byte> read_whole(const ShardedTensor& tensor) {
  std::vector<std::byte> bytes(bytes_of(tensor.dtype, tensor.shape).value());
  ShardCatalogue::read(tensor, {}, bytes);
  return bytes;
}

}  // namespace accelerate::testing
