#include "accelerate/launch/output/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "accelerate/base/error.h"
#include "accelerate/base/file_error.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_log_dir(const fs::path& log_dir, const std::string& why) {
  throw ConfigError("--log_dir is " + detail::quoted_path(log_dir) + ", and " + why +
                    ". Name a folder that you may write into; it is made if it does not exist.");
}

// Returns a new folder below `folder`, for this user alone. Sets errno and returns "" if there is
// none.
fs::path new_folder(const fs::path& folder, const std::string& name) {
  std::string path = folder / (name + "_XXXXXX");
  return ::mkdtemp(path.data()) == nullptr ? fs::path() : fs::path(path);
}

fs::path temporary_folder_to_keep(const std::string& run_id) {
  std::error_code error;
  fs::path folder = fs::temp_directory_path(error);
  if (!error) folder = new_folder(folder, "accelerate");
  if (!error && !folder.empty()) folder = new_folder(folder, run_id);
  if (!error && !folder.empty()) return folder;
  throw ConfigError(
      "what ranks write is to go into files, and there is no --log_dir and no folder for temporary "
      "files: " +
      (error ? error.message() : std::strerror(errno)) + ". Pass --log_dir FOLDER, or set TMPDIR.");
}

}  // namespace

void prepare_log_dir(const fs::path& log_dir) {
  if (log_dir.empty()) return;
  std::error_code error;
  fs::create_directories(log_dir, error);
  if (fs::exists(log_dir) && !fs::is_directory(log_dir)) refuse_log_dir(log_dir, "that is a file");
  if (error) refuse_log_dir(log_dir, "it cannot be made: " + error.message());
  if (::access(log_dir.c_str(), W_OK | X_OK) != 0)
    refuse_log_dir(log_dir, std::string("it cannot be written into: ") + std::strerror(errno));
}

RunFolder::RunFolder(const OutputPlan& plan, const std::string& run_id) {
  if (!plan.log_dir.empty()) {
    prepare_log_dir(plan.log_dir);
    path_ = new_folder(fs::absolute(plan.log_dir), run_id);
    if (path_.empty())
      refuse_log_dir(plan.log_dir,
                     std::string("a folder cannot be made in it: ") + std::strerror(errno));
  } else if (plan.has_files()) {
    path_ = temporary_folder_to_keep(run_id);
  } else if (plan.has_error_files) {
    try {
      temporary_.emplace("launch");
      path_ = temporary_->path();
    } catch (const Error&) {
      // The ranks can do without.
    }
  }
}

}  // namespace accelerate
