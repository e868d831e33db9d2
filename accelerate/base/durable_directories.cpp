#include "accelerate/base/durable_directories.h"

#include <vector>

namespace accelerate {
namespace {

// Returns the missing folders of `folder` and its parents, the innermost first.
std::vector<std::filesystem::path> missing_folders(FileSystem& files,
                                                   const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> missing;
  for (auto path = std::filesystem::absolute(folder);
       path.has_relative_path() && files.status(path).kind == FileKind::none;
       path = path.parent_path())
    missing.push_back(path);
  return missing;
}

}  // namespace

void create_directories_durably(FileSystem& files, const std::filesystem::path& folder) {
  if (folder.empty()) return;  // The working directory, which may have been deleted.
  const auto missing = missing_folders(files, folder);
  files.create_directories(folder);
  for (const auto& path : missing) files.sync_directory(path.parent_path());
}

NewFolders::NewFolders(FileSystem& files, const std::filesystem::path& folder) : files_(files) {
  if (folder.empty()) return;
  missing_ = missing_folders(files, folder);
  // "." and ".." are other names of folders that may exist already.
  std::erase_if(missing_,
                [](const auto& path) { return path.filename() == "." || path.filename() == ".."; });
}

NewFolders::~NewFolders() {
  try {
    for (const auto& path : missing_)
      if (files_.status(path).kind == FileKind::directory) files_.remove(path);
  } catch (...) {  // Usually the folder is not empty: something else is in it.
  }
}

}  // namespace accelerate
