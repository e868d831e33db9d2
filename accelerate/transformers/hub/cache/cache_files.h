// Looks at files of the cache, with care not to follow links by mistake.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace accelerate::detail {

// The files of a folder, and whether a name is a local folder.

/// Returns the files below `folder`, links followed, as sorted relative paths with '/'. Throws
/// FileError.
[[nodiscard]] std::vector<std::string> files_below(const std::filesystem::path& folder);

/// Whether a folder with this name exists. Throws ConfigError if it does not and the name is not a
/// repository's id either.
[[nodiscard]] bool is_local(const std::string& name_or_folder);

}  // namespace accelerate::detail

namespace accelerate::detail::cache_files {

using Time = std::chrono::system_clock::time_point;
using Paths = std::vector<std::filesystem::path>;

struct BlobStatus {
  std::uint64_t size_bytes = 0;
  Time accessed;
  Time modified;
};

/// Follows links. Returns nullopt when nothing is there.
[[nodiscard]] std::optional<BlobStatus> status_of(const std::filesystem::path& path);
/// Follows links.
[[nodiscard]] bool is_folder(const std::filesystem::path& path);
/// These functions do not follow a link at `path`.
[[nodiscard]] std::filesystem::file_type own_type(const std::filesystem::path& path);
[[nodiscard]] bool is_own_file(const std::filesystem::path& path);
[[nodiscard]] bool is_own_folder(const std::filesystem::path& path);
/// Returns the names in `folder`; none if there is no such folder.
[[nodiscard]] std::vector<std::string> names_in(const std::filesystem::path& folder);
/// Returns the paths below `folder`, sorted, without folders and links to folders. Links to folders
/// are not entered. Throws FileError. Source: Python's `Path.glob("**/*")`.
[[nodiscard]] Paths paths_below(const std::filesystem::path& folder);
/// Returns the path that `link` points to; further links are not followed. Source:
/// `os.path.abspath`.
[[nodiscard]] std::filesystem::path target_of(const std::filesystem::path& link,
                                              std::error_code& error);
[[nodiscard]] bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder);
/// Whether a link is among the folders above `path`.
[[nodiscard]] bool is_behind_link(const std::filesystem::path& path);
/// Whether `name` is a file that an operating system adds to folders. Source: FILES_TO_IGNORE.
[[nodiscard]] bool is_helper(std::string_view name);
/// Returns the path in quotes, safe to print and never shortened.
[[nodiscard]] std::string quoted(const std::filesystem::path& path);

}  // namespace accelerate::detail::cache_files
