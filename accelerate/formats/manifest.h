// manifest.json lists the files of a checkpoint and what they hold. It is written last, so a folder
// with a manifest is complete. docs/formats/checkpoint.md has every key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate {

struct ManifestFile {
  std::string name;  ///< A plain file name, without a folder.
  std::uint64_t size_bytes = 0;
  std::uint64_t checksum = 0;  ///< XXH3-64 of the content.
};

struct Manifest {
  static constexpr const char* kName = "manifest.json";
  static constexpr std::int64_t kFormat = 1;

  int num_processes = 1;            ///< Number of ranks that saved.
  std::vector<ManifestFile> files;  ///< Sorted by name.
  /// `ranks` and `save` belong to checkpoints that every machine keeps on a disk of its own.
  /// `ranks`: the ranks that wrote into this folder. `save`: the name of the save, equal on all
  /// machines. Both are empty when all ranks wrote into this folder.
  std::vector<int> ranks = {};
  std::string save = {};

  /// Whether the files that only `rank` writes are in this folder.
  [[nodiscard]] bool has_rank(int rank) const;
};

/// Called with the number of bytes read or written since the last call, by the thread that reads or
/// writes.
using ByteCounter = std::function<void(std::uint64_t bytes)>;

/// Describes the file `folder`/`name`: its size and checksum. Throws CheckpointError. Cost: the
/// file is read once.
[[nodiscard]] ManifestFile manifest_file(FileSystem& files, const std::filesystem::path& folder,
                                         const std::string& name, const ByteCounter& counter = {});

/// Returns the text of manifest.json.
[[nodiscard]] std::string manifest_text(Manifest manifest);

/// Reads the text of a manifest and trusts nothing in it. Throws CheckpointError, which calls the
/// text `name`.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& name);

/// Completes `folder`: writes the manifest, and syncs it and all names in the folder.
void write_manifest(FileSystem& files, const std::filesystem::path& folder, Manifest manifest);

/// Reads the manifest of `folder`. Throws CheckpointError if there is no folder, or no manifest
/// (the checkpoint is incomplete, or not one of ours), or the manifest is damaged or of a newer
/// format.
[[nodiscard]] Manifest read_manifest(FileSystem& files, const std::filesystem::path& folder);

/// Which files manifest_faults() compares, and who counts the bytes.
struct FaultSearch {
  std::size_t first = 0;   ///< Index of the first file.
  std::size_t stride = 1;  ///< Distance to the next file.
  ByteCounter counter = {};
};

/// Compares `folder` with what the manifest says. Returns one sentence for each missing, shortened
/// or damaged file.
[[nodiscard]] std::vector<std::string> manifest_faults(FileSystem& files,
                                                       const std::filesystem::path& folder,
                                                       const Manifest& manifest,
                                                       const FaultSearch& search = {});

}  // namespace accelerate
