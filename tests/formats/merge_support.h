// A small model in shards, and the file that merging them gives.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "accelerate/formats/manifest.h"
#include "tests/formats/shard_support.h"
#include "tests/support/crash_file_system.h"
#include "tests/support/files.h"
#include "tests/support/support.h"

namespace accelerate::testing {

using Wholes = std::map<std::string, std::vector<std::byte>>;

/// The tensors of a small model.
inline const std::vector<TensorSpec>& specs() {
  static const std::vector<TensorSpec> all = {{"fc.weight", DType::f32, {40, 30}},
                                              {"fc.bias", DType::bf16, {40}},
                                              {"norm.count", DType::i64, {}},
                                              {"none", DType::f32, {0, 3}},
                                              {"tiles", DType::f64, {6, 10}}};
  return all;
}

/// Their bytes, where the first is tensor number `first`, by prefixed name.
inline Wholes wholes(std::size_t first = 0, const std::string& prefix = "") {
  Wholes all;
  for (const auto& spec : specs()) all[prefix + spec.name] = counted(spec, first++);
  return all;
}

/// What save_tensors makes of the same tensors.
inline std::string whole_file(std::size_t first = 0) {
  const TemporaryFolder home;
  const auto all = wholes(first);
  std::vector<StoredTensor> tensors;
  for (const auto& spec : specs()) tensors.push_back({spec, all.at(spec.name)});
  write_safetensors(real_file_system(), home.path() / "x", tensors,
                    {.metadata = {{"format", "pt"}}});
  return file_text(home.path() / "x");
}

/// Three ranks: rows of the matrix, the rest on the first two, "tiles" in four.
inline void write_shards(const std::filesystem::path& folder, const std::string& stem = "model",
                         std::size_t first = 0) {
  std::filesystem::create_directories(folder);
  std::vector<TensorSpec> named = specs();
  const std::string prefix = stem == "model" ? "" : stem + ":";
  for (auto& spec : named) spec.name = prefix + spec.name;
  const auto tiles = named.back();
  named.pop_back();
  auto ranks = deal_to_ranks(named, 3, 200);
  for (int i = 0; i < 4; ++i)
    ranks[i % 3].push_back({tiles, {{i / 2 * 2, i % 2 * 7}, {i / 2 * 2 + 2, i % 2 == 0 ? 7 : 3}}});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    write_parts(folder, stem, rank, ranks[rank], wholes(first, prefix));
}

/// write_shards into /data/in of `disk`.
inline void put_shards(CrashFileSystem& disk) {
  const TemporaryFolder home;
  write_shards(home.path());
  for (const auto& name : names_in(home.path()))
    disk.put("/data/in/" + name, file_text(home.path() / name));
}

/// Makes `folder` a checkpoint of three processes.
inline void add_manifest(const std::filesystem::path& folder) {
  Manifest manifest{.num_processes = 3, .files = {}};
  for (const auto& name : names_in(folder))
    manifest.files.push_back(manifest_file(real_file_system(), folder, name));
  write_manifest(real_file_system(), folder, manifest);
}

}  // namespace accelerate::testing
