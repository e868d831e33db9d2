// The paths of a repository, and the paths among them that match a pattern.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accelerate::detail {

/// Joins the names of two folders of a repository; either may be "". Throws ConfigError if a name
/// leaves the repository: an address, an absolute path or "..".
[[nodiscard]] std::string join_folders(std::string_view base, std::string_view folder);

class ListedFiles {
 public:
  /// Throws DataError for a path that no file of a repository can have, such as "../a".
  explicit ListedFiles(std::vector<std::string> paths);

  /// Returns the files below the folder `base` that match `pattern`, sorted by path. Leaves out
  /// README.md and other metadata, hidden files and folders, and folders that begin with "__",
  /// unless the pattern names them. Throws ConfigError for a pattern that leaves the repository.
  /// Source: resolve_pattern() of datasets/data_files.py.
  [[nodiscard]] std::vector<std::string> matches(std::string_view base,
                                                 std::string_view pattern) const;

 private:
  [[nodiscard]] std::vector<std::string> matches_by_glob(const std::string& pattern) const;

  std::vector<std::string> paths_;
};

/// Returns what follows the last '/'.
[[nodiscard]] std::string_view base_name(std::string_view path);

}  // namespace accelerate::detail
