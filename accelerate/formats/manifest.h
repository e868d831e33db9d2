// manifest.json: which files a checkpoint consists of, and what they hold. It is written last, so
// that a folder with a manifest is complete. docs/formats/checkpoint.md has every key.
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
  std::string name;  ///< One plain file name.
  std::uint64_t size_bytes = 0;
  std::uint64_t checksum = 0;  ///< XXH3-64 of the content.
};

struct Manifest {
  static constexpr const char* kName = "manifest.json";
  static constexpr std::int64_t kFormat = 1;

  int num_processes = 1;            ///< Ranks that saved.
  std::vector<ManifestFile> files;  ///< Sorted by name.
  /// Of a checkpoint that every machine has on a disk of its own: the ranks that wrote here, and
  /// the name of the save, which is the same on all. Empty when all ranks wrote here.
  std::vector<int> ranks = {};
  std::string save = {};

  /// Whether what `rank` alone has is here.
  [[nodiscard]] bool has_rank(int rank) const;
};

/// Called with the bytes that were read or written since the last call, by the thread that does it.
using ByteCounter = std::function<void(std::uint64_t bytes)>;

/// What `folder`/`name` holds. Cost: the file is read once. Throws CheckpointError.
[[nodiscard]] ManifestFile manifest_file(FileSystem& files, const std::filesystem::path& folder,
                                         const std::string& name, const ByteCounter& counter = {});

/// The text of manifest.json.
[[nodiscard]] std::string manifest_text(Manifest manifest);

/// Reads it back. Trusts nothing. Throws CheckpointError; `name` is what it calls the text.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& name);

/// Completes `folder`: writes the manifest and syncs it with all names in the folder.
void write_manifest(FileSystem& files, const std::filesystem::path& folder, Manifest manifest);

/// The manifest of `folder`. Throws CheckpointError: there is no folder, no manifest (the
/// checkpoint was not completed, or is none of ours), a damaged one, or one of a newer format.
[[nodiscard]] Manifest read_manifest(FileSystem& files, const std::filesystem::path& folder);

/// The share of the files that is compared here, and what counts its bytes.
struct FaultSearch {
  std::size_t first = 0;   ///< Index of the first file.
  std::size_t stride = 1;  ///< From there, every so many-th.
  ByteCounter counter = {};
};

/// Compares `folder` with what the manifest says. Returns the faults, a sentence each: missing,
/// shorter, damaged.
[[nodiscard]] std::vector<std::string> manifest_faults(FileSystem& files,
                                                       const std::filesystem::path& folder,
                                                       const Manifest& manifest,
                                                       const FaultSearch& search = {});

}  // namespace accelerate
