#include "accelerate/base/durable_directories.h"

#include <vector>

namespace accelerate {

void create_directories_durably(FileSystem& files, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> parents;
  for (auto path = std::filesystem::absolute(folder);
       path.has_relative_path() && files.status(path).kind == FileKind::none;
       path = path.parent_path())
    parents.push_back(path.parent_path());
  files.create_directories(folder);
  for (const auto& parent : parents) files.sync_directory(parent);
}

}  // namespace accelerate
