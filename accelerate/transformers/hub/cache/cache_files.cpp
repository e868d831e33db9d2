#include "accelerate/transformers/hub/cache/cache_files.h"

#include <sys/stat.h>
#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate::detail::cache_files {

namespace fs = std::filesystem;

namespace {

Time time_of(const timespec& since_epoch) {
  const auto whole =
      std::chrono::seconds(since_epoch.tv_sec) + std::chrono::nanoseconds(since_epoch.tv_nsec);
  return Time(std::chrono::duration_cast<Time::duration>(whole));
}

}  // namespace

fs::file_type own_type(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type();
}

std::optional<BlobStatus> status_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return BlobStatus{static_cast<std::uint64_t>(status.st_size), time_of(status.st_atim),
                    time_of(status.st_mtim)};
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_own_file(const fs::path& path) {
  return own_type(path) == fs::file_type::regular;
}
bool is_own_folder(const fs::path& path) {
  return own_type(path) == fs::file_type::directory;
}

std::vector<std::string> names_in(const fs::path& folder) {
  return is_folder(folder) ? real_file_system().list(folder) : std::vector<std::string>();
}

Paths paths_below(const fs::path& folder) {
  Paths files;
  if (!is_folder(folder)) return files;
  std::error_code error;
  using Iterator = fs::recursive_directory_iterator;
  for (Iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!is_folder(at->path())) files.push_back(at->path());
  }
  if (error) throw FileError("list", folder, error.value());
  std::sort(files.begin(), files.end());
  return files;
}

fs::path target_of(const fs::path& link, std::error_code& error) {
  return (link.parent_path() / fs::read_symlink(link, error)).lexically_normal();
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [of_folder, of_path] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return of_folder == folder.end() && of_path != path.end();
}

bool is_behind_link(const fs::path& path) {
  std::error_code error;
  return fs::canonical(path.parent_path(), error) != path.parent_path() || error;
}

bool is_helper(std::string_view name) {
  return name == ".DS_Store" || name == "Thumbs.db" || name == "desktop.ini";
}

std::string quoted(const fs::path& path) {
  return "'" + safe_text(path.string()) + "'";
}

}  // namespace accelerate::detail::cache_files

namespace accelerate::detail {

namespace fs = std::filesystem;

std::vector<std::string> files_below(const fs::path& folder) {
  if (real_file_system().status(folder).kind != FileKind::directory)
    throw FileError("read", folder, "it is not a folder");
  std::vector<std::string> files;
  std::error_code error;
  using Options = fs::directory_options;
  for (fs::recursive_directory_iterator at(folder, Options::follow_directory_symlink, error), end;
       !error && at != end; at.increment(error)) {
    constexpr int kDeepest = 32;  // A link may lead back up; Linux follows 40 links.
    if (at.depth() > kDeepest)
      throw FileError("read", at->path(), "it is too deep: does a link lead back up?");
    std::error_code broken_link;
    if (at->is_regular_file(broken_link))
      files.push_back(at->path().lexically_relative(folder).generic_string());
  }
  if (error) throw FileError("read", folder, error.value());
  std::ranges::sort(files);
  return files;
}

bool is_local(const std::string& name_or_folder) {
  std::error_code error;
  if (name_or_folder.find('\0') == std::string::npos && fs::is_directory(name_or_folder, error))
    return true;
  if (is_repo_id(name_or_folder)) return false;
  const std::string why = error ? error.message() : "It is not a folder";
  throw ConfigError(shown(name_or_folder) + " is neither an existing folder (" + why + ") nor " +
                    std::string(kRepoIdRule));
}

}  // namespace accelerate::detail
