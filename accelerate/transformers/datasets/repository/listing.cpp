#include "accelerate/transformers/datasets/repository/listing.h"

#include <algorithm>
#include <array>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/transformers/datasets/repository/glob.h"

namespace accelerate::detail {
namespace {

constexpr std::array<std::string_view, 6> kMetadataFiles = {
    "README.md",          "config.json",    "dataset_info.json",
    "dataset_infos.json", "dummy_data.zip", "dataset_dict.json"};

// Whether `text` starts as an address does: letters, digits, '+', '-' or '.' before a ':'.
bool has_scheme(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string scheme = lower(text.substr(0, colon));
  return scheme[0] >= 'a' && scheme[0] <= 'z' &&
         scheme.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+-.") == std::string::npos;
}

void check_is_inside(std::string_view path) {
  const auto parts = split(path, '/');
  const bool leaves = path.starts_with('/') || has_scheme(path) ||
                      path.find("::") != std::string_view::npos ||
                      std::find(parts.begin(), parts.end(), "..") != parts.end();
  if (!leaves) return;
  throw ConfigError("'" + untrusted_line(path) +
                    "' was found where a path or pattern belongs; allowed are those inside the "
                    "repository, without \"..\", a leading slash or an address");
}

// Splits a path, without empty parts and ".".
std::vector<std::string> parts_of(std::string_view path) {
  auto parts = split(path, '/');
  std::erase_if(parts, [](const std::string& part) { return part.empty() || part == "."; });
  return parts;
}

std::string without_outer_slashes(std::string_view pattern) {
  while (pattern.ends_with('/')) pattern.remove_suffix(1);
  while (pattern.starts_with("./")) pattern.remove_prefix(2);
  return std::string(pattern);
}

// Parts of a path that `datasets` ignores, unless the pattern has the same number of them.
struct UnusualParts {
  std::size_t special_folders = 0;  // Folders that begin with "__".
  std::size_t hidden = 0;           // Folders and files that begin with a dot.

  bool operator==(const UnusualParts&) const = default;
};

UnusualParts unusual_parts(std::string_view path) {
  UnusualParts found;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (!path.empty() && part.starts_with("__")) ++found.special_folders;
    if (part.starts_with('.') && part.find_first_not_of('.') != std::string_view::npos)
      ++found.hidden;
  }
  return found;
}

// Whether `datasets` ignores a file although the pattern matches it.
bool is_passed_over(std::string_view path, std::string_view pattern) {
  const auto name = base_name(path);
  if (name != base_name(pattern) &&
      std::find(kMetadataFiles.begin(), kMetadataFiles.end(), name) != kMetadataFiles.end())
    return true;
  return unusual_parts(path) != unusual_parts(pattern);
}

}  // namespace

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::string join_folders(std::string_view base, std::string_view folder) {
  check_is_inside(base);
  check_is_inside(folder);
  auto parts = parts_of(base);
  for (auto& part : parts_of(folder)) parts.push_back(std::move(part));
  return join(parts, "/");
}

ListedFiles::ListedFiles(std::vector<std::string> paths) : paths_(std::move(paths)) {
  std::sort(paths_.begin(), paths_.end());
  paths_.erase(std::unique(paths_.begin(), paths_.end()), paths_.end());
  for (const std::string& path : paths_) {
    const auto parts = split(path, '/');
    const bool is_odd = std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
      return part.empty() || part == "." || part == ".." || part.find('\0') != std::string::npos;
    });
    if (is_odd)
      throw DataError("the repository lists '" + untrusted_line(path) +
                      "', which is not a valid path");
  }
}

// As fsspec: lists the folder in front of the first magic character, as deep as the pattern has
// parts, and compares each path there.
std::vector<std::string> ListedFiles::matches_by_glob(const std::string& pattern) const {
  const std::string root = pattern.substr(0, pattern.rfind('/', pattern.find_first_of("*?[")) + 1);
  const auto slashes = [&](const std::string& text) {
    return std::count(text.begin() + static_cast<std::ptrdiff_t>(root.size()), text.end(), '/');
  };
  const bool any_depth = pattern.find("**") != std::string::npos;
  const Glob glob(pattern);
  std::vector<std::string> found;
  for (auto path = std::lower_bound(paths_.begin(), paths_.end(), root);
       path != paths_.end() && path->starts_with(root); ++path) {
    if ((any_depth || slashes(*path) <= slashes(pattern)) && glob.matches(*path))
      found.push_back(*path);
  }
  return found;
}

std::vector<std::string> ListedFiles::matches(std::string_view base,
                                              std::string_view pattern) const {
  check_is_inside(pattern);
  const std::string whole =
      (base.empty() ? "" : std::string(base) + "/") + without_outer_slashes(pattern);
  std::vector<std::string> found;
  if (has_magic(whole)) {
    found = matches_by_glob(whole);
  } else if (std::string path = join(parts_of(whole), "/");
             std::binary_search(paths_.begin(), paths_.end(), path)) {
    found = {std::move(path)};
  }
  std::erase_if(found, [&](const std::string& path) { return is_passed_over(path, whole); });
  return found;
}

}  // namespace accelerate::detail
