#include "accelerate/transformers/hub/cache/folder_files.h"

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate::detail {

namespace fs = std::filesystem;

std::vector<std::string> files_below(const fs::path& folder) {
  if (real_file_system().status(folder).kind != FileKind::directory)
    throw FileError("read", folder, "it is no folder");
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
